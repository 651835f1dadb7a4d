package main

import (
	"context"
	"fmt"
	"time"
)

// roll restarts all nodes in good order, one after another, for some rounds. The load may not lose a single request
// (I10): it goes to nodes that say they are ready, as a load balancer's would.
func (w *world) roll(ctx context.Context) error {
	for round := range w.rolling {
		began := w.recorder.now()
		for i, m := range w.fleet.members {
			p, _ := m.at()
			if err := p.end(ctx, 40*time.Second); err != nil {
				return fmt.Errorf("restart of %s in good order: %w", m.id, err)
			}
			if err := w.fleet.start(i, w.postgres, false); err != nil {
				return err
			}
			if err := until(ctx, 30*time.Second, m.id+" to be ready", func() bool { return w.fleet.isReady(ctx, m) }); err != nil {
				return err
			}
			if err := w.owners.even(ctx, 30*time.Second); err != nil {
				return err
			}
		}
		w.say("round %d of %d: all nodes restarted in %.1fs", round+1, w.rolling, (w.recorder.now() - began).Seconds())
	}
	pause(ctx, time.Second)
	return nil
}
