package kafkaidem

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/router/kafka"
	"github.com/tenure-go/tenure/shard"
)

// record is one of partition 3 of the topic orders, with headers of the name that counts.
func record(offset int64, value string, keys ...string) *kgo.Record {
	r := &kgo.Record{Topic: "orders", Partition: 3, Offset: offset, Key: []byte("alice"), Value: []byte(value)}
	r.Headers = append(r.Headers, kgo.RecordHeader{Key: "traceparent", Value: []byte("00-1")})
	for _, k := range keys {
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: Header, Value: []byte(k)})
	}
	return r
}

func TestRequest_ScopeAndKey(t *testing.T) {
	for _, test := range []struct {
		name       string
		stream     string
		r          *kgo.Record
		scope, key string
	}{
		{"by header", "orders@id-1", record(17, "x", "k1"), "kafka-key:orders", "k1"},
		{"by header, wherever it lies", "", record(99, "x", "k1"), "kafka-key:orders", "k1"},
		{"by place", "orders@id-1", record(17, "x"), "kafka-offset:orders@id-1", "3/17"},
		{"by place in a topic made anew", "orders@id-2", record(17, "x"), "kafka-offset:orders@id-2", "3/17"},
		{"a header that looks like a place", "orders@id-1", record(99, "x", "3/17"), "kafka-key:orders", "3/17"},
	} {
		q, err := request(test.stream, shard.Token{Group: "orders", Shard: 3}, test.r)
		if err != nil || q.Scope != test.scope || q.Key != test.key || q.Token.Shard != 3 || q.Wait != wait {
			t.Errorf("%s: got %+v, %v, want scope %q, key %q", test.name, q, err, test.scope, test.key)
		}
	}
}

func TestRequest_Refuses(t *testing.T) {
	for name, r := range map[string]*kgo.Record{
		"two headers":      record(17, "x", "k1", "k1"),
		"an empty header":  record(17, "x", ""),
		"too long a one":   record(17, "x", strings.Repeat("k", 1025)),
		"one not of UTF-8": record(17, "x", "\xff"),
	} {
		_, err := request("orders@id-1", shard.Token{}, r)
		bad, ok := errors.AsType[*kafka.BadRecordError](err)
		if !ok || bad.Record != r || cas.OutcomeOf(err) != cas.NotApplied {
			t.Errorf("%s: got %v, want a BadRecordError of the record", name, err)
		}
	}
	// That is the program's fault, and not the record's: it must not be put away for it.
	_, err := request("", shard.Token{}, record(17, "x"))
	if _, bad := errors.AsType[*kafka.BadRecordError](err); bad || err == nil || cas.OutcomeOf(err) != cas.NotApplied {
		t.Errorf("neither header nor stream: got %v, want it refused, and not as a bad record", err)
	}
}

// The fingerprint is over key and value, an absent one told from an empty one, and over nothing else.
func TestRequest_Fingerprint(t *testing.T) {
	print := func(edit func(*kgo.Record)) []byte {
		r := record(17, "x", "k1")
		edit(r)
		q, err := request("orders@id-1", shard.Token{}, r)
		if err != nil {
			t.Fatal(err)
		}
		return q.Fingerprint
	}
	first := print(func(*kgo.Record) {})
	for name, edit := range map[string]func(*kgo.Record){
		"another header":    func(r *kgo.Record) { r.Headers[0].Value = []byte("00-2") },
		"another partition": func(r *kgo.Record) { r.Partition, r.Offset = 4, 99 },
	} {
		if !bytes.Equal(print(edit), first) {
			t.Errorf("%s: got another fingerprint, want the same", name)
		}
	}
	seen := map[string]string{string(first): "the first"}
	for name, edit := range map[string]func(*kgo.Record){
		"another value": func(r *kgo.Record) { r.Value = []byte("y") },
		"another key":   func(r *kgo.Record) { r.Key = []byte("bob") },
		"empty value":   func(r *kgo.Record) { r.Value = []byte{} },
		"no value":      func(r *kgo.Record) { r.Value = nil },
		"no key":        func(r *kgo.Record) { r.Key = nil },
		"parts moved":   func(r *kgo.Record) { r.Key, r.Value = []byte("alic"), []byte("ex") },
	} {
		p := string(print(edit))
		if same := seen[p]; same != "" {
			t.Errorf("%s: got the fingerprint of %s, want another", name, same)
		}
		seen[p] = name
	}
}
