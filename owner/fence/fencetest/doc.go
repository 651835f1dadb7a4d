// Package fencetest is the conformance suite of fences: what package fence's own pass, on every
// resource, and what a fence of yours should.
//
// Put some accounts behind your fence, each holding a whole number, and describe the two as a Fence:
//
//	func TestFence(t *testing.T) {
//		fencetest.Run(t, fencetest.Subject{
//			New: func(t testing.TB, o fencetest.Options) fencetest.Fence { return newAccounts(t) },
//		})
//	}
//
// The suite plays owners and zombies against it. What it can try depends on what the Fence can do
// besides: it asks for these interfaces, and leaves out the tests of those that are missing.
//
//	Fence          seal and guard: equality, order, other shards, foreign groups, bad tokens, writes that race a seal
//	Transactional  guards inside transactions: who waits for whom, what is committed, what is reported
//	Positional     positions of a stream, stored with the effects
//	GroupSealer    SealAll
//	Reopener       connections that break at the commit
//
// A suite that can't fail proves nothing. Faults runs it and returns the tests that fail, instead of
// failing: give it a guard that you have broken on purpose.
//
// No driver is imported here.
package fencetest
