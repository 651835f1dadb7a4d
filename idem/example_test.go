package idem_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/tenure-go/tenure/cas/memkv"
	"github.com/tenure-go/tenure/idem"
	"github.com/tenure-go/tenure/shard"
)

// must ends an example that can't go on.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// A job that is delivered twice charges once. The first delivery fails half-way; the second goes on from there.
func ExampleDo() {
	store := memkv.New()
	defer store.Close()
	engine := must(idem.New(idem.OnCAS(store, ""), idem.Config{}))

	mail := errors.New("mail server is away")
	job := func(ctx context.Context) (string, error) {
		req := idem.Request{Scope: "tenant-7", Key: "order-17", Fingerprint: idem.Fingerprint([]byte("order-17"), []byte("30 EUR"))}
		return idem.Do(ctx, engine, req, func(ctx context.Context, op *idem.Op) (string, error) {
			charge, err := idem.Step(ctx, op, "charge", func(_ context.Context, key string) (string, error) {
				fmt.Println("charging, under a key of", len(key), "characters")
				return "ch_1", nil
			})
			if err != nil {
				return "", err
			}
			if op.Tries() == 1 {
				return "", mail
			}
			return "paid with " + charge, nil
		})
	}
	ctx := context.Background()
	for range 3 {
		fmt.Println(job(ctx))
	}
	// Output:
	// charging, under a key of 45 characters
	//  mail server is away
	// paid with ch_1 <nil>
	// paid with ch_1 <nil>
}

// What became of a payment whose reply was lost, for a page that shows it: nothing is run to find out.
func ExampleLookup() {
	store := memkv.New()
	defer store.Close()
	engine := must(idem.New(idem.OnCAS(store, ""), idem.Config{}))
	ctx := context.Background()
	req := idem.Request{Scope: "tenant-7", Key: "order-17"}
	show := func() {
		found := must(idem.Lookup[string](ctx, engine, req))
		fmt.Printf("%s, tries: %d, steps: %q, result: %q\n", found.Status, found.Tries, found.Steps, found.Result)
	}
	pay := func(fails error) {
		_, _ = idem.Do(ctx, engine, req, func(ctx context.Context, op *idem.Op) (string, error) {
			charge, err := idem.Step(ctx, op, "charge", func(context.Context, string) (string, error) { return "ch_1", nil })
			if err == nil {
				show()
				err = fails
			}
			return "paid with " + charge, err
		})
	}
	show()
	pay(errors.New("mail server is away"))
	show()
	pay(nil)
	show()
	// Output:
	// absent, tries: 0, steps: [], result: ""
	// running, tries: 1, steps: ["charge"], result: ""
	// interrupted, tries: 1, steps: ["charge"], result: ""
	// running, tries: 2, steps: ["charge"], result: ""
	// done, tries: 2, steps: [], result: "paid with ch_1"
}

// An owner crashes in the middle. Without a token others would wait for its attempt to end; the shard's
// next owner, under a higher epoch, need not.
func ExampleRequest_token() {
	server := memkv.NewServer(memkv.Config{})
	under := func(epoch shard.Epoch) idem.Request {
		tok := shard.Token{Group: "accounts", GroupID: "q6c5", Shard: 3, Epoch: epoch}
		return idem.Request{Scope: "tenant-7", Key: "order-17", Token: tok}
	}

	old := server.Client()
	defer old.Close()
	crashing := must(idem.New(idem.OnCAS(old, ""), idem.Config{Finish: time.Millisecond}))
	_, err := idem.Do(context.Background(), crashing, under(5), func(context.Context, *idem.Op) (string, error) {
		old.Intercept(func(memkv.Call) memkv.Fate { return memkv.Fate{Loss: memkv.Connection} })
		return "nobody hears of this", nil
	})
	_, unfinished := errors.AsType[*idem.FinishError](err)
	fmt.Println("old owner, cut off:", unfinished)

	next := server.Client()
	defer next.Close()
	engine := must(idem.New(idem.OnCAS(next, ""), idem.Config{}))
	_, err = idem.Do(context.Background(), engine, under(5), func(context.Context, *idem.Op) (string, error) { return "", nil })
	_, busy := errors.AsType[*idem.InProgressError](err)
	fmt.Println("same epoch has to wait:", busy)
	fmt.Println(idem.Do(context.Background(), engine, under(6), func(_ context.Context, op *idem.Op) (string, error) {
		return fmt.Sprint("next owner, after an interruption: ", op.Interrupted()), nil
	}))
	// Output:
	// old owner, cut off: true
	// same epoch has to wait: true
	// next owner, after an interruption: true <nil>
}

// The printer takes no key, but it can be asked what it has printed.
func ExampleReconcile() {
	store := memkv.New()
	defer store.Close()
	engine := must(idem.New(idem.OnCAS(store, ""), idem.Config{}))
	printed := map[string]int{}

	print := func() (int, error) {
		req := idem.Request{Scope: "printer", Key: "cheque-9", Interrupted: idem.Reconcile(
			func(context.Context, *idem.Op) (page int, done bool, err error) {
				page, done = printed["cheque-9"]
				fmt.Println("looked: printed already:", done)
				return page, done, nil
			})}
		return idem.Do(context.Background(), engine, req, func(context.Context, *idem.Op) (int, error) {
			fmt.Println("printing")
			printed["cheque-9"] = 41
			return 0, errors.New("paper jam, perhaps before it was printed")
		})
	}
	fmt.Println(print())
	fmt.Println(print())
	// Output:
	// printing
	// 0 paper jam, perhaps before it was printed
	// looked: printed already: true
	// 41 <nil>
}

func ExampleHTTP() {
	store := memkv.New()
	defer store.Close()
	engine := must(idem.New(idem.OnCAS(store, ""), idem.Config{}))

	orders := 0
	handler := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		orders++
		w.Header().Set("Location", fmt.Sprint("/orders/", orders))
		w.WriteHeader(http.StatusCreated)
	})
	tenant := func(r *http.Request) (string, error) { return r.Header.Get("X-Tenant"), nil } // of your authentication
	server := httptest.NewServer(idem.HTTP(engine, idem.HTTPConfig{Scope: tenant})(handler))
	defer server.Close()

	post := func(key, body string) {
		r := must(http.NewRequest(http.MethodPost, server.URL+"/orders", strings.NewReader(body)))
		r.Header.Set("X-Tenant", "7")
		if key != "" {
			r.Header.Set("Idempotency-Key", key)
		}
		res := must(server.Client().Do(r))
		defer res.Body.Close()
		_, _ = io.Copy(io.Discard, res.Body)
		fmt.Println(strings.TrimSpace(fmt.Sprintln(res.StatusCode, res.Header.Get("Location"), res.Header.Get(idem.Replayed))))
	}
	post(`"8e03978e-40d5"`, "tea")
	post(`"8e03978e-40d5"`, "tea")
	post(`"8e03978e-40d5"`, "coffee")
	post("", "tea")
	// Output:
	// 201 /orders/1
	// 201 /orders/1 true
	// 422
	// 400
}
