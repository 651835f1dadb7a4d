package linear

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/cas/memkv"
)

// bank is what came of one run.
type bank struct {
	moves   []*movement
	log     storeLog
	expired int
	swept   int
	faults  []string
}

// open puts the funds into the accounts.
func open(t *testing.T, s cas.KV) {
	t.Helper()
	for _, key := range accounts {
		b, err := json.Marshal(purse{N: funds})
		if err != nil {
			t.Fatal(err)
		}
		write(t.Context(), t, s, key, string(b))
	}
}

// counter returns a clock whose every reading is later than the one before.
func counter() func() int64 {
	var now atomic.Int64
	return func() int64 { return now.Add(1) }
}

// audit closes the books: it reads all accounts without faults, and collects what the bankers have done.
func (r *bank) audit(t *testing.T, s cas.Store, clock func() int64, all []*banker) {
	last := &banker{id: len(all), store: s, rng: rand.New(rand.NewPCG(0, 0)), policy: sound, limit: context.WithCancel, clock: clock}
	m := &movement{move: move{ID: "last"}, client: last.id, call: clock()}
	m.told, _ = last.transact(t.Context(), m.move, "")
	m.ret = clock()
	r.moves = []*movement{m}
	for _, b := range append(all, last) {
		r.moves = append(r.moves, b.done...)
		r.faults = append(r.faults, b.faults...)
		r.expired += b.expired
		for _, sum := range b.sums {
			if sum != funds*len(accounts) {
				r.faults = append(r.faults, fmt.Sprintf("a run saw the sum %d", sum))
			}
		}
	}
}

// applied counts how often m was written to each account.
func (r *bank) applied(m *movement) (n [len(accounts)]int) {
	for i, key := range accounts {
		for _, c := range r.log.keys[key] {
			if c.cell.By == m.ID {
				n[i]++
			}
		}
	}
	return n
}

// judge compares what bankers were told with what happened.
func (r *bank) judge() {
	if r.log.err != nil {
		r.faults = append(r.faults, fmt.Sprintf("watch: %v", r.log.err))
	}
	for _, m := range r.moves {
		applied := r.applied(m)
		once := [len(accounts)]int{}
		if !m.audit() {
			once[m.From], once[m.To] = 1, 1
		}
		never := [len(accounts)]int{}
		ok := applied == once && m.told.Outcome != cas.NotApplied || applied == never && m.told.Outcome != cas.Applied
		if !ok && !m.audit() {
			r.faults = append(r.faults, fmt.Sprintf("%s: told %s, and written so often to each account: %d", m.ID, m.told.Outcome, applied))
		}
	}
}

func onMemkvBank(t *testing.T, seed uint64, p policy) (r bank) {
	synctest.Test(t, func(t *testing.T) {
		server := memkv.NewServer(memkv.Config{})
		direct := server.Client()
		defer direct.Close()
		log := follow(t.Context(), direct, 0)
		open(t, direct)
		clock := counter()
		shape := rand.New(rand.NewPCG(seed, 0))
		clients, acts := 2+shape.IntN(3), 8+shape.IntN(8)
		lossy, slow := shape.IntN(40), shape.IntN(20)
		start := time.Now()
		var all []*banker
		var load, sweeps sync.WaitGroup
		ctx, cancel := context.WithCancel(t.Context())
		for id := range clients {
			s := server.Client()
			w := &weather{id: id, rng: rand.New(rand.NewPCG(seed, uint64(2*id+1))), start: start, lossy: lossy, slow: slow}
			s.Intercept(w.fate)
			b := &banker{id: id, store: s, rng: rand.New(rand.NewPCG(seed, uint64(2*id+2))), policy: p, limit: w.limit, clock: clock}
			all = append(all, b)
			load.Go(func() {
				defer s.Close()
				time.Sleep(time.Duration(id+1) * time.Millisecond) // virtual: one after another
				for n := range acts {
					b.act(t.Context(), n)
				}
				time.Sleep(5 * time.Minute) // virtual: receipts are swept meanwhile
				for range min(3, len(b.late)) {
					b.repeat(t.Context())
				}
			})
		}
		// What began two minutes ago is forgotten, in no client's moment.
		sweeps.Go(func() {
			for tick := time.NewTicker(30*round + 700*time.Nanosecond); ; {
				select {
				case <-ctx.Done():
					tick.Stop()
					return
				case <-tick.C:
					n, err := cas.Sweep(t.Context(), direct, 2*time.Minute)
					if err != nil {
						t.Errorf("sweep: %v", err)
					}
					r.swept += n
				}
			}
		})
		load.Wait()
		time.Sleep(5 * time.Minute) // virtual: whatever is late arrives, and everything is swept
		cancel()
		sweeps.Wait()
		if snap, err := direct.List(t.Context(), cas.ReceiptPrefix+"@"); err != nil || len(snap.Entries) != 0 {
			r.faults = append(r.faults, fmt.Sprintf("receipts are left: %v, %v", snap.Entries, err))
		}
		r.audit(t, direct, clock, all)
		write(t.Context(), t, direct, finish, "")
		r.log = <-log
	})
	r.judge()
	return r
}

func (r *bank) linearizable(t *testing.T, name string) bool {
	t.Helper()
	var ops []porcupine.Operation
	for _, m := range r.moves {
		// One that was not applied says nothing, unless it says what it saw. One that is uncertain is
		// left out if the log does not know it, and ends when it is seen: see history.operations.
		if m.told.Outcome == cas.NotApplied && !m.told.Poor || m.told.Outcome == cas.Uncertain && r.applied(m) == [len(accounts)]int{} {
			continue
		}
		o := porcupine.Operation{ClientId: m.client, Input: m.move, Call: m.call, Output: m.told, Return: m.ret}
		if m.ret == never {
			for _, other := range r.moves {
				for _, p := range other.told.Before {
					if p.By == m.ID {
						o.Return = min(o.Return, other.ret)
					}
				}
			}
		}
		ops = append(ops, o)
	}
	result, info := porcupine.CheckOperationsVerbose(ledgerModel(), ops, time.Minute)
	switch result {
	case porcupine.Ok:
		return true
	case porcupine.Unknown:
		t.Fatalf("%s: porcupine came to no result within a minute, on %d operations", name, len(ops))
	case porcupine.Illegal:
		if err := porcupine.VisualizePath(ledgerModel(), info, filepath.Join(t.ArtifactDir(), name+".html")); err != nil {
			t.Logf("%s: no picture: %v", name, err)
		}
	}
	return false
}

// outcomes counts them, of what is no audit.
func (r *bank) outcomes() map[cas.Outcome]int {
	n := make(map[cas.Outcome]int)
	for _, m := range r.moves {
		if !m.audit() {
			n[m.told.Outcome]++
		}
	}
	return n
}

func (r *bank) String() string {
	var b strings.Builder
	for _, m := range r.moves {
		fmt.Fprintf(&b, "%4d-%-5d client %d: %+v: %+v\n", m.call, m.ret, m.client, m.move, m.told)
	}
	return b.String()
}

func TestMemkvUpdateAllIsLinearizableAndAppliesOnce(t *testing.T) {
	outcomes := make(map[cas.Outcome]int)
	swept, expired := 0, 0
	for _, seed := range seeds()[:(len(seeds())+3)/4] {
		r := onMemkvBank(t, seed, sound)
		swept += r.swept
		expired += r.expired
		for o, n := range r.outcomes() {
			outcomes[o] += n
		}
		if ok := r.linearizable(t, fmt.Sprintf("seed-%d", seed)); !ok || len(r.faults) > 0 {
			t.Errorf("seed %d: linearizable %v; %s\n%s\nreplay: go test ./internal/integration/linear -run MemkvUpdateAll -seed %d -v",
				seed, ok, strings.Join(r.faults, "\n"), &r, seed)
		}
	}
	t.Logf("moves: %d applied, %d not applied, %d uncertain for ever; %d receipts swept, %d late retries told so",
		outcomes[cas.Applied], outcomes[cas.NotApplied], outcomes[cas.Uncertain], swept, expired)
	if *seedFlag == 0 && (outcomes[cas.Applied] == 0 || outcomes[cas.Uncertain] == 0 || swept == 0 || expired == 0) {
		t.Errorf("the load is no test: outcomes %v, %d swept, %d expired", outcomes, swept, expired)
	}
}

func TestMemkvUpdateAllControls(t *testing.T) {
	for _, p := range []policy{naive, hopeful} {
		ran, log, history := 0, 0, 0
		for _, seed := range seeds()[:min(20, len(seeds()))] {
			r := onMemkvBank(t, seed, p)
			ran++
			if len(r.faults) > 0 {
				log++
			}
			if !r.linearizable(t, fmt.Sprintf("bank-%s-%d", p, seed)) {
				history++
			}
		}
		t.Logf("%s: of %d runs the log objects to %d and porcupine to %d", p, ran, log, history)
		if log == 0 || history == 0 {
			t.Errorf("%s: went unnoticed: of %d runs the log objects to %d and porcupine to %d", p, ran, log, history)
		}
	}
}
