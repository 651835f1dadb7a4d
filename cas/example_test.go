package cas_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/cas/memkv"
)

func ExampleUpdate() {
	ctx := context.Background()
	store := memkv.New()
	defer store.Close()

	type stock struct{ Left int }
	take := func(n int) func(*stock) error {
		return func(s *stock) error {
			if s.Left < n {
				return errors.New("sold out")
			}
			s.Left -= n
			return nil
		}
	}
	_, _ = cas.Update(ctx, store, "stock/apples", func(s *stock) error { s.Left = 5; return nil }, cas.UpdateConfig{})

	left, err := cas.Update(ctx, store, "stock/apples", take(3), cas.UpdateConfig{})
	fmt.Println(left.Left, err)
	_, err = cas.Update(ctx, store, "stock/apples", take(3), cas.UpdateConfig{})
	fmt.Println(err, "/", cas.OutcomeOf(err))
	// Output:
	// 2 <nil>
	// cas: update "stock/apples": sold out / not applied
}

// With a receipt an operation happens once, however often it is tried.
func ExampleUpdate_receipt() {
	ctx := context.Background()
	store := memkv.New()
	defer store.Close()

	pay := func(n *int) error { *n += 100; return nil }
	for range 3 { // a client that tries again, whatever it was told
		balance, err := cas.Update(ctx, store, "accounts/7", pay, cas.UpdateConfig{Receipt: "payment-4711"})
		fmt.Println(balance, err)
	}
	// Output:
	// 100 <nil>
	// 100 <nil>
	// 100 <nil>
}

func ExampleOutcomeOf() {
	ctx := context.Background()
	store := memkv.New()
	defer store.Close()
	put := cas.Txn{If: []cas.Cond{cas.Absent("k")}, Then: []cas.Op{cas.Put("k", nil)}}

	_, err := store.Commit(ctx, put)
	fmt.Println(cas.OutcomeOf(err))

	_, err = store.Commit(ctx, put)
	fmt.Println(cas.OutcomeOf(err), "-", err)

	store.Intercept(func(memkv.Call) memkv.Fate { return memkv.Fate{Loss: memkv.Reply} })
	_, err = store.Commit(ctx, cas.Txn{Then: []cas.Op{cas.Put("k", nil)}})
	fmt.Println(cas.OutcomeOf(err), "-", err)
	// Output:
	// applied
	// not applied - cas: conflict on "k" at revision 2
	// uncertain - memkv: commit: cas: outcome unknown: connection broke before the reply
}

func ExampleConflictError() {
	ctx := context.Background()
	store := memkv.New()
	defer store.Close()
	_, _ = store.Commit(ctx, cas.Txn{Then: []cas.Op{cas.Put("leader", []byte("ann"))}})

	_, err := store.Commit(ctx, cas.Txn{
		If:   []cas.Cond{cas.Absent("leader")},
		Then: []cas.Op{cas.Put("leader", []byte("bob"))},
	})
	if conflict, ok := errors.AsType[*cas.ConflictError](err); ok {
		fmt.Printf("%s leads since revision %d\n", conflict.Current[0].Value, conflict.Current[0].Created)
	}
	// Output:
	// ann leads since revision 2
}
