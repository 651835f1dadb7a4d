package kafka

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if told := os.Getenv(memberVariable); told != "" {
		runMember(told)
		return
	}
	goleak.VerifyTestMain(m)
}
