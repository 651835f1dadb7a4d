package kafka

import (
	"strings"
	"testing"
	"time"
)

func TestConsumerConfig(t *testing.T) {
	c, err := ConsumerConfig{}.withDefaults()
	if err != nil || c.MaxBatch != 500 || c.Buffer != 4<<20 || c.Tries != 5 || c.MaxDelay != 0 || c.Logger == nil {
		t.Errorf("defaults: got %+v, %v", c, err)
	}
	for _, tc := range []struct {
		c    ConsumerConfig
		want string
	}{
		{ConsumerConfig{MaxBatch: -1}, "MaxBatch"},
		{ConsumerConfig{Buffer: -1}, "Buffer"},
		{ConsumerConfig{Tries: -1}, "Tries"},
		{ConsumerConfig{MaxDelay: -1}, "MaxDelay"},
		{ConsumerConfig{Start: Start{Offset: -1}}, "Start.Offset"},
		{ConsumerConfig{Start: Start{Offset: 1, Latest: true}}, "Start"},
		{ConsumerConfig{Start: Start{Time: time.Unix(1, 0), Latest: true}}, "Start"},
	} {
		if _, err := tc.c.withDefaults(); err == nil || !strings.Contains(err.Error(), "ConsumerConfig."+tc.want) {
			t.Errorf("%+v: got %v, want an error about %s", tc.c, err, tc.want)
		}
	}
	_, err = ConsumerConfig{MaxBatch: -1, Tries: -1}.withDefaults()
	if err == nil || !strings.Contains(err.Error(), "MaxBatch") || !strings.Contains(err.Error(), "Tries") {
		t.Errorf("two faults: got %v, want both", err)
	}
}
