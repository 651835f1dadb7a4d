// Package linear checks that package cas is linearizable while replies are lost, and that each
// operation happens at most once. It has no code to import.
//
// Clients update, read and commit a few keys through a store that loses and delays what they send
// and what they get. Every operation goes into a history: when it began, when it ended, and what it
// was told. Two judges look at it.
//
//   - Porcupine looks for an order of the operations that explains every answer. One whose
//     outcome stayed uncertain may take effect at any time after it began, or never.
//   - The log is a watch that suffers no faults. It counts how often each operation was applied:
//     once if it was told so, never if it was told "not applied", at most once otherwise. It knows what
//     each key held at each revision, and so whether a read was true and a guard held.
//
// On memkv a run is a function of its seed: see weather. On etcd the faults are those of a TCP proxy.
//
//	go test ./internal/integration/linear -run Memkv -seeds 5000   # more of them
//	go test ./internal/integration/linear -run Memkv -seed 17 -v   # one again
//	go test ./internal/integration/linear -run Etcd -for 1m
//
// A history that breaks a rule is printed, and -artifacts keeps porcupine's picture of it. The controls
// are clients that do what a program without receipts is tempted to do, and both judges must object.
package linear
