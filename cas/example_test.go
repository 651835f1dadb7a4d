package cas_test

import (
	"context"
	"errors"
	"fmt"
	"time"

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

// A value is read with its revision, which a commit can be made to depend on.
func ExampleGet() {
	ctx := context.Background()
	store := memkv.New()
	defer store.Close()

	greeting, rev, err := cas.Get[string](ctx, store, "greeting")
	fmt.Printf("%q at %d, %v\n", greeting, rev, err)

	_, _ = cas.Update(ctx, store, "greeting", func(v *string) error { *v = "hello"; return nil }, cas.UpdateConfig{})
	greeting, rev, err = cas.Get[string](ctx, store, "greeting")
	fmt.Printf("%q at %d, %v\n", greeting, rev, err)
	// Output:
	// "" at 0, <nil>
	// "hello" at 2, <nil>
}

// Commit is what the rest is made of: all of Then under one revision, if all of If holds.
func ExampleKV_commit() {
	ctx := context.Background()
	store := memkv.New()
	defer store.Close()

	claim := func(seat, name string) error {
		_, err := store.Commit(ctx, cas.Txn{
			If:   []cas.Cond{cas.Absent("seats/" + seat)},
			Then: []cas.Op{cas.Put("seats/"+seat, []byte(name)), cas.Put("names/"+name, []byte(seat))},
		})
		return err
	}
	fmt.Println(claim("7C", "ann"))

	err := claim("7C", "bob")
	if conflict, ok := errors.AsType[*cas.ConflictError](err); ok {
		fmt.Printf("taken by %s; bob's booking was %s\n", conflict.Current[0].Value, cas.OutcomeOf(err))
	}
	// Output:
	// <nil>
	// taken by ann; bob's booking was not applied
}

// A guard is one more condition. A shard's owner takes its Tenure's Guard, which holds until
// somebody else owns the shard; here it is an entry in a list of ministers.
func ExampleUpdate_guard() {
	ctx := context.Background()
	store := memkv.New()
	defer store.Close()
	rev, _ := store.Commit(ctx, cas.Txn{Then: []cas.Op{cas.Put("treasurer", []byte("ann"))}})
	ann := cas.UpdateConfig{Guards: []cas.Cond{cas.AtRev("treasurer", rev)}}
	spend := func(n *int) error { *n -= 10; return nil }

	left, err := cas.Update(ctx, store, "treasury", spend, ann)
	fmt.Println(left, err)

	_, _ = store.Commit(ctx, cas.Txn{Then: []cas.Op{cas.Put("treasurer", []byte("bob"))}})
	_, err = cas.Update(ctx, store, "treasury", spend, ann)
	fmt.Println(err, "/", cas.OutcomeOf(err))
	// Output:
	// -10 <nil>
	// cas: update "treasury": guard on "treasurer": cas: conflict among 2 keys at revision 4 / not applied
}

// How hard it was is for metrics: conflicts that rise say that a key is too hot for this, and wants
// an owner.
func ExampleUpdateConfig_observe() {
	ctx := context.Background()
	store := memkv.New()
	defer store.Close()

	conflicts := 0
	observed := cas.UpdateConfig{Observe: func(e cas.Effort) { conflicts += e.Conflicts }}
	disturbed := false
	_, err := cas.Update(ctx, store, "n", func(n *int) error {
		if !disturbed { // somebody else gets in between, once
			disturbed = true
			_, _ = cas.Update(ctx, store, "n", func(n *int) error { *n = 100; return nil }, cas.UpdateConfig{})
		}
		*n++
		return nil
	}, observed)
	n, _, _ := cas.Get[int](ctx, store, "n")
	fmt.Println(n, err, "after", conflicts, "conflict")
	// Output:
	// 101 <nil> after 1 conflict
}

// A transfer reads two keys and writes both, or none. With a receipt it happens once.
func ExampleUpdateAll() {
	ctx := context.Background()
	store := memkv.New()
	defer store.Close()

	transfer := func(from, to string, n int) func(*cas.Draft) (int, error) {
		return func(d *cas.Draft) (int, error) {
			if err := d.Fetch(from, to); err != nil { // both in one round trip
				return 0, err
			}
			a, err := cas.Read[int](d, from)
			if err != nil {
				return 0, err
			}
			b, err := cas.Read[int](d, to)
			if err != nil {
				return 0, err
			}
			if a < n {
				return 0, errors.New("insufficient funds")
			}
			return a - n, errors.Join(cas.Write(d, from, a-n), cas.Write(d, to, b+n))
		}
	}
	_, _ = cas.Update(ctx, store, "accounts/ann", func(n *int) error { *n = 100; return nil }, cas.UpdateConfig{})

	for range 2 { // a client that tries again, whatever it was told
		left, err := cas.UpdateAll(ctx, store, "transfer", transfer("accounts/ann", "accounts/bob", 70), cas.UpdateConfig{Receipt: "tx-1"})
		fmt.Println("left:", left, err)
	}
	_, err := cas.UpdateAll(ctx, store, "transfer", transfer("accounts/ann", "accounts/bob", 70), cas.UpdateConfig{Receipt: "tx-2"})
	fmt.Println(err, "/", cas.OutcomeOf(err))
	// Output:
	// left: 30 <nil>
	// left: 30 <nil>
	// cas: update "transfer": insufficient funds / not applied
}

// A draft that writes nothing reads several keys as of one revision.
func ExampleUpdateAll_read() {
	ctx := context.Background()
	store := memkv.New()
	defer store.Close()
	_, _ = store.Commit(ctx, cas.Txn{Then: []cas.Op{cas.Put("x", []byte("3")), cas.Put("y", []byte("4"))}})

	point, err := cas.UpdateAll(ctx, store, "point", func(d *cas.Draft) (p [2]int, err error) {
		if p[0], err = cas.Read[int](d, "x"); err != nil {
			return p, err
		}
		p[1], err = cas.Read[int](d, "y")
		return p, err
	}, cas.UpdateConfig{})
	fmt.Println(point, err)
	// Output:
	// [3 4] <nil>
}

// The reply to a payment is lost and the program restarts. It has kept the operation's id, and asks.
func ExampleResolve() {
	ctx := context.Background()
	store := memkv.New()
	defer store.Close()
	id := cas.Dated(time.Now(), "payment-4711")
	pay := func(n *int) error { *n += 100; return nil }

	store.Intercept(func(c memkv.Call) memkv.Fate {
		if len(c.Txn.Then) > 0 {
			return memkv.Fate{Loss: memkv.Reply} // from now on no write is answered
		}
		return memkv.Fate{}
	})
	_, err := cas.Update(ctx, store, "accounts/7", pay, cas.UpdateConfig{Receipt: id, Tries: 1})
	fmt.Println(cas.OutcomeOf(err))

	store.Intercept(nil)
	outcome, err := cas.Resolve(ctx, store, "accounts/7", id)
	fmt.Println(outcome, err)

	// One that never arrived is shut out: it can't be applied any more, however late it comes.
	outcome, err = cas.Resolve(ctx, store, "accounts/7", "payment-4712")
	fmt.Println(outcome, err)
	// Output:
	// uncertain
	// applied <nil>
	// not applied <nil>
}

// Receipts of dated operations are swept. A retry that comes after that is refused.
func ExampleSweep() {
	ctx := context.Background()
	store := memkv.New()
	defer store.Close()
	pay := func(n *int) error { *n += 100; return nil }

	id := cas.Dated(time.Now().Add(-48*time.Hour), "payment-4711") // begun two days ago
	_, err := cas.Update(ctx, store, "accounts/7", pay, cas.UpdateConfig{Receipt: id})
	fmt.Println(err)

	deleted, err := cas.Sweep(ctx, store, 24*time.Hour)
	fmt.Println(deleted, err)

	_, err = cas.Update(ctx, store, "accounts/7", pay, cas.UpdateConfig{Receipt: id})
	fmt.Println(errors.Is(err, cas.ErrReceiptExpired), "/", cas.OutcomeOf(err))
	balance, _, _ := cas.Get[int](ctx, store, "accounts/7")
	fmt.Println(balance)
	// Output:
	// <nil>
	// 1 <nil>
	// true / uncertain
	// 100
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
