package memkv_test

import (
	"fmt"
	"testing"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/cas/memkv"
)

func BenchmarkCommit(b *testing.B) {
	s := memkv.New()
	defer s.Close()
	value := []byte("0123456789abcdef")
	var rev int64
	b.ReportAllocs()
	for b.Loop() {
		var err error
		rev, err = s.Commit(b.Context(), cas.Txn{
			If:   []cas.Cond{cas.AtRev("k", rev)},
			Then: []cas.Op{cas.Put("k", value)},
		})
		if err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkFanOut is the cost of one commit until every watch has seen it.
func BenchmarkFanOut(b *testing.B) {
	for _, watches := range []int{1, 100, 1000} {
		b.Run(fmt.Sprintf("watches=%d", watches), func(b *testing.B) {
			s := memkv.New()
			defer s.Close()
			var chans []<-chan cas.Change
			for range watches {
				chans = append(chans, s.Watch(b.Context(), "k", 1))
			}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := s.Commit(b.Context(), cas.Txn{Then: []cas.Op{cas.Put("k", nil)}}); err != nil {
					b.Fatal(err)
				}
				for _, ch := range chans {
					<-ch
				}
			}
		})
	}
}

func BenchmarkNow(b *testing.B) {
	s := memkv.New()
	defer s.Close()
	b.ReportAllocs()
	for b.Loop() {
		_ = s.Now()
	}
}
