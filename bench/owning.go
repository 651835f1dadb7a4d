package main

import (
	"context"
	"slices"

	"github.com/tenure-go/tenure/bench/internal/moving"
	"github.com/tenure-go/tenure/bench/internal/question"
	"github.com/tenure-go/tenure/bench/internal/report"
	"github.com/tenure-go/tenure/bench/internal/zombie"
)

func (s *session) zombie(ctx context.Context) ([]*report.Table, error) {
	stage, err := zombie.NewStage(ctx, s.dir, s.addresses)
	if err != nil {
		return nil, err
	}
	defer stage.Close()
	durability := "The balance is in SQLite"
	if s.places.Postgres != nil {
		durability = "The balance is in Postgres"
	}
	durability += ", or in etcd where that is said; every commit synced to disk"
	kinds := zombie.Kinds(s.addresses)
	tables := []*report.Table{question.Zombie(ctx, stage, kinds, s.longest(), s.trials, durability, s.progress.tell)}
	if !s.quick {
		tables = append(tables, question.Succession(ctx, stage, kinds, s.longest(), min(s.trials, 5), durability, s.progress.tell))
	}
	return tables, ctx.Err()
}

// moving has ownership move in good order, with requests under way and with records to be consumed.
func (s *session) moving(ctx context.Context) ([]*report.Table, error) {
	q := &moving.Requests{Etcd: s.addresses.Etcd, Run: s.places.Run}
	defer q.Close()
	tables := []*report.Table{question.MovingRequests(ctx, q, s.moves(), s.progress.tell)}
	if s.places.Kafka != nil {
		r := &moving.Records{Broker: s.places.Kafka, Etcd: s.addresses.Etcd, Run: s.places.Run}
		tables = append(tables, question.MovingRecords(ctx, r, moving.Consumers(s.places.Kafka), s.full, s.moves(), s.progress.tell))
	}
	return tables, ctx.Err()
}

func (s *session) placement(context.Context) ([]*report.Table, error) {
	return []*report.Table{question.Placement()}, nil
}

func (s *session) sizes() []question.Size {
	sizes := []question.Size{{Shards: 1024, Members: 3}, {Shards: 8192, Members: 3}, {Shards: 1024, Members: 30}, {Shards: 1024, Members: 100}}
	switch {
	case s.quick:
		return sizes[:1]
	case s.full:
		sizes = slices.Insert(sizes, 2, question.Size{Shards: 65536, Members: 3})
		sizes = append(sizes, question.Size{Shards: 1024, Members: 300}, question.Size{Shards: 1024, Members: 1000})
	}
	return sizes
}

func (s *session) growth(ctx context.Context) ([]*report.Table, error) {
	t, err := question.Growth(ctx, s.places.Etcd, s.places.Run, s.sizes(), s.progress.tell)
	return []*report.Table{t}, err
}

func (s *session) cost(ctx context.Context) ([]*report.Table, error) {
	t, err := question.Cost(ctx, s.benchtime().String(), s.consumption())
	return []*report.Table{t}, err
}
