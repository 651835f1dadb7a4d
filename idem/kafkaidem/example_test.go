package kafkaidem_test

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tenure-go/tenure/cas/memkv"
	"github.com/tenure-go/tenure/idem"
	"github.com/tenure-go/tenure/idem/kafkaidem"
	"github.com/tenure-go/tenure/shard"
)

// A producer that got no answer has sent a payment twice, under one id. And the owner that was given the first record has
// crashed before it stored its position, so that the next one, under epoch 6, is given both.
func ExampleDo() {
	store := memkv.New()
	defer store.Close()
	engine, err := idem.New(idem.OnCAS(store, ""), idem.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	charge := func(_ context.Context, key string) (string, error) {
		fmt.Println("charging, under a key of", len(key), "characters")
		return "ch_1", nil
	}
	process := func(ctx context.Context, tok shard.Token, recs ...*kgo.Record) error {
		for _, r := range recs {
			err := kafkaidem.Do(ctx, engine, tok, r, func(ctx context.Context, op *idem.Op) error {
				_, err := idem.Step(ctx, op, "charge", charge)
				return err
			})
			if err != nil {
				return err
			}
		}
		return nil // here the position is stored: positions.Save(ctx, t, kafka.Next(recs))
	}

	payment := func(offset int64, value string) *kgo.Record {
		return &kgo.Record{
			Topic: "payments", Partition: 3, Offset: offset, Key: []byte("alice"), Value: []byte(value),
			Headers: []kgo.RecordHeader{{Key: kafkaidem.Header, Value: []byte("payment-17")}},
		}
	}
	first, again := payment(41, "30 EUR"), payment(42, "30 EUR")
	tok := shard.Token{Group: "payments", GroupID: "q6c5", Shard: 3, Epoch: 5}
	ctx := context.Background()
	fmt.Println(process(ctx, tok, first))
	tok.Epoch = 6
	fmt.Println(process(ctx, tok, first, again))
	fmt.Println(process(ctx, tok, payment(43, "40 EUR")))
	// Output:
	// charging, under a key of 45 characters
	// <nil>
	// <nil>
	// kafka: bad record at payments/3@43: idem: key "payment-17" was used with another fingerprint: a new request needs a new key, and a retry has to repeat the first exactly
}
