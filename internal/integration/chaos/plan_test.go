package main

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestPlan(t *testing.T) {
	seen := make(map[string]bool)
	for seed := range uint64(25) {
		o := options{seed: seed, length: 10 * time.Minute, ttl: 3 * time.Second}
		faults := o.faults()
		if diff := cmp.Diff(faults, o.faults()); diff != "" {
			t.Fatalf("seed %d has two plans:\n%s", seed, diff)
		}
		if len(faults) < 150 || faults[0].Kind != faultStop {
			t.Errorf("seed %d: %d faults, and %v first; want 150 at least, and a stop first", seed, len(faults), faults[0])
		}
		for i, f := range faults {
			seen[f.Kind] = true
			broken := 0
			for _, g := range faults[:i] {
				if kindOf(g.Kind).node && g.At+g.For > f.At {
					broken++
					if kindOf(f.Kind).node && g.Node == f.Node {
						t.Fatalf("seed %d: one node suffers %v and %v at a time", seed, g, f)
					}
				}
				if kindOf(g.Kind).etcd && kindOf(f.Kind).etcd && g.At+g.For > f.At {
					t.Fatalf("seed %d: etcd suffers %v and %v at a time", seed, g, f)
				}
			}
			if broken > mostBroken {
				t.Fatalf("seed %d: %d nodes suffer when %v begins", seed, broken, f)
			}
		}
	}
	for _, k := range kinds {
		if k.weight > 0 && !seen[k.name] {
			t.Errorf("no seed has a fault of kind %s", k.name)
		}
	}
}

func TestPlanWithoutFenceIsZombies(t *testing.T) {
	o := options{seed: 1, length: 10 * time.Second, ttl: 2 * time.Second, noFence: true}
	for _, f := range o.faults() {
		if f.Kind != faultZombie {
			t.Errorf("got %v, want only zombies", f)
		}
	}
	if len(o.faults()) == 0 {
		t.Error("no faults")
	}
}
