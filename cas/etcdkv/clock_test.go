package etcdkv

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// machine is the three clocks of a machine, set by a test.
type machine struct {
	mono, wall, boot time.Duration
	noBoot           bool
	asked            int
}

func (m *machine) clock() *clock {
	m.wall += 1_800_000_000 * time.Second
	m.boot += 1000 * time.Second
	m.mono += 7 * time.Second
	return newClock(
		func() (time.Duration, time.Duration) { return m.mono, m.wall },
		func() (time.Duration, bool) { m.asked++; return m.boot, !m.noBoot },
	)
}

func (m *machine) run(d time.Duration)     { m.mono += d; m.wall += d; m.boot += d }
func (m *machine) suspend(d time.Duration) { m.wall += d; m.boot += d }
func (m *machine) step(d time.Duration)    { m.wall += d }

func TestClockCountsSuspend(t *testing.T) {
	for _, c := range []struct {
		name   string
		noBoot bool
		do     func(*machine)
		want   time.Duration
		// asks is how often boot time is read, beyond the first time.
		asks int
	}{
		{"running", false, func(m *machine) { m.run(time.Hour) }, time.Hour, 0},
		{"suspend", false, func(m *machine) { m.run(time.Second); m.suspend(time.Minute); m.run(time.Second) }, 62 * time.Second, 1},
		{"wall clock set forward", false, func(m *machine) { m.run(time.Second); m.step(time.Hour) }, time.Second, 1},
		{"wall clock set back", false, func(m *machine) { m.run(time.Second); m.step(-time.Hour) }, time.Second, 1},
		{"suspend and wall clock set back a little", false, func(m *machine) { m.suspend(time.Minute); m.step(-time.Second) }, time.Minute, 1},
		{"drift below what is looked at", false, func(m *machine) { m.step(4 * time.Millisecond) }, 0, 0},
		{"no boot time: running", true, func(m *machine) { m.run(time.Hour) }, time.Hour, 0},
		{"no boot time: suspend", true, func(m *machine) { m.run(time.Second); m.suspend(time.Minute) }, 61 * time.Second, 0},
		{"no boot time: wall clock set forward counts", true, func(m *machine) { m.step(time.Hour) }, time.Hour, 0},
		{"no boot time: wall clock set back does not", true, func(m *machine) { m.run(time.Second); m.step(-time.Hour) }, time.Second, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := &machine{noBoot: c.noBoot}
			clock := m.clock()
			m.asked = 0
			start := clock.Now()
			c.do(m)
			if got := clock.Now() - start; got != c.want {
				t.Errorf("got %v, want %v", got, c.want)
			}
			if m.asked != c.asks {
				t.Errorf("boot time was read %d times, want %d", m.asked, c.asks)
			}
			m.run(time.Second)
			if got := clock.Now() - start; got != c.want+time.Second || m.asked != c.asks {
				t.Errorf("a second later: got %v after %d readings of boot time", got, m.asked)
			}
		})
	}
}

func TestClockAddsUpSuspends(t *testing.T) {
	for _, noBoot := range []bool{false, true} {
		m := &machine{noBoot: noBoot}
		clock := m.clock()
		start := clock.Now()
		for range 100 { // below what is looked at, one by one
			m.suspend(4 * time.Millisecond)
			clock.Now()
		}
		if got := clock.Now() - start; got < 395*time.Millisecond || got > 400*time.Millisecond {
			t.Errorf("boot time missing: %v: got %v, want 400ms less what is not looked at", noBoot, got)
		}
		m.step(-time.Hour)
		clock.Now()
		m.suspend(time.Minute)
		if got := clock.Now() - start; got < time.Minute+395*time.Millisecond {
			t.Errorf("boot time missing: %v: got %v after a further minute", noBoot, got)
		}
	}
}

// A boot clock that fails later must not take back what was slept through.
func TestClockNeverRunsBack(t *testing.T) {
	m := &machine{}
	clock := m.clock()
	m.suspend(time.Minute)
	before := clock.Now()
	m.noBoot = true
	m.step(-time.Hour)
	if now := clock.Now(); now < before {
		t.Errorf("from %v to %v", before, now)
	}
	m.noBoot = false
	m.boot -= 10 * time.Minute
	m.step(time.Hour)
	if now := clock.Now(); now < before {
		t.Errorf("from %v to %v", before, now)
	}
}

func TestClockUnderConcurrentDrift(t *testing.T) {
	for _, noBoot := range []bool{false, true} {
		var mono, wall atomic.Int64
		const drifts, each = 200, int64(10 * time.Millisecond)
		clock := newClock(
			func() (time.Duration, time.Duration) {
				return time.Duration(mono.Add(1)), time.Duration(wall.Load() + mono.Load())
			},
			func() (time.Duration, bool) { return time.Duration(mono.Load() + wall.Load()), !noBoot },
		)
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				last := clock.Now()
				for range 20_000 {
					now := clock.Now()
					if now < last {
						t.Errorf("from %v to %v", last, now)
						return
					}
					last = now
				}
			})
		}
		for range drifts {
			wall.Add(each)
			clock.Now()
		}
		wg.Wait()
		got, ran := clock.Now(), time.Duration(mono.Load())
		if slept := got - ran; slept < time.Duration((drifts-1)*each) || slept > time.Duration(drifts*each)+time.Millisecond {
			t.Errorf("boot time missing: %v: counted %v of sleep, want %v", noBoot, slept, time.Duration(drifts*each))
		}
	}
}

// Another caller looks between a caller's look and its storing what it found. What the
// other has returned must not be taken back.
func TestClockLooksOverlap(t *testing.T) {
	var wall time.Duration
	var clock *clock
	var other time.Duration
	reads := 0
	clock = newClock(
		func() (time.Duration, time.Duration) { return time.Second, wall },
		func() (time.Duration, bool) {
			slept := wall
			if reads++; reads == 2 { // within the first look
				wall += 4 * time.Millisecond
				other = clock.Now()
			}
			return slept, true
		},
	)
	wall += 6 * time.Millisecond
	clock.Now()
	if now := clock.Now(); now < other {
		t.Errorf("from %v to %v", other, now)
	}
}

func TestSystemClock(t *testing.T) {
	clock := systemClock()
	start, began := clock.Now(), time.Now()
	timer := time.NewTimer(20 * time.Millisecond)
	<-timer.C
	got, want := clock.Now()-start, time.Since(began)
	if got > want+100*time.Millisecond || got < want-100*time.Millisecond {
		t.Errorf("got %v, the machine's clock says %v", got, want)
	}
	if n := testing.AllocsPerRun(100, func() { clock.Now() }); n != 0 {
		t.Errorf("%v allocations", n)
	}
	if _, ok := bootTime(); !ok {
		t.Log("this machine has no boot time")
	}
}

func BenchmarkClock(b *testing.B) {
	b.Run("Now", func(b *testing.B) {
		c := systemClock()
		b.ReportAllocs()
		for b.Loop() {
			c.Now()
		}
	})
	b.Run("time.Now", func(b *testing.B) {
		for b.Loop() {
			_ = time.Now()
		}
	})
	b.Run("boot", func(b *testing.B) {
		for b.Loop() {
			bootTime()
		}
	})
	b.Run("parallel", func(b *testing.B) {
		c := systemClock()
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				c.Now()
			}
		})
	})
}
