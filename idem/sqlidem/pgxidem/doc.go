// Package pgxidem is package sqlidem for Postgres through pgx: the same table, without database/sql
// between, and with fewer round trips.
//
//	store, err := pgxidem.New(pool, pgxidem.Config{Fence: fences})
//	engine, err := idem.New(store, idem.Config{})
//	...
//	receipt, err := pgxidem.DoTx(ctx, engine, request, func(tx pgx.Tx) (Receipt, error) { … })
//
// Some processes may keep operations through this package and others through sqlidem. What is
// guaranteed, and what a function given to DoTx or StepTx must not do, is told there.
//
// # Round trips
//
//	Do, first     claim | fn | result
//	Do, replay    claim
//	StepTx        BEGIN | fn | record and COMMIT
//	DoTx, first   look | BEGIN and claim | fn | result and COMMIT
//	DoTx, replay  look
//
// So a StepTx takes as many as the bare transaction, and DoTx one more. The record's write fails in the
// server if the record is another's, and Postgres then skips the COMMIT that is on its way already. With a Fence, which has
// the last word before the commit, each of the two takes one more.
package pgxidem
