package rival

import (
	"context"
	"fmt"
	"strconv"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tenure-go/tenure/bench/internal/measure"
)

// pipelined sends the plain UPDATEs of all clients over one connection: whatever waits goes out in one write, each statement with a
// Sync of its own, and so a commit of its own. It is the best a program can do without batching several changes into one transaction.
func pipelined(ctx context.Context, p *Places, w Work) (*measure.Instance, error) {
	t, err := newPgTable(ctx, p, w.Accounts)
	if err != nil {
		return nil, err
	}
	conn, err := p.Postgres.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	pg := conn.Conn().PgConn()
	if _, err := pg.Prepare(ctx, t.name, t.add, nil); err != nil {
		conn.Release()
		return nil, fmt.Errorf("rival: prepare: %w", err)
	}
	requests, done := make(chan request, w.Clients), make(chan struct{})
	go func() {
		defer close(done)
		for first := range requests {
			wave := append(make([]request, 0, w.Clients), first)
			for more := true; more && len(wave) < w.Clients; {
				select {
				case r, ok := <-requests:
					if ok {
						wave = append(wave, r)
					}
					more = ok
				default:
					more = false
				}
			}
			send(pg, t.name, wave)
		}
	}()
	return &measure.Instance{
		Do: func(_ context.Context, _, account int) error {
			r := request{account, make(chan error, 1)}
			requests <- r
			return <-r.reply
		},
		Sum: t.sum,
		Close: func() {
			close(requests)
			<-done
			conn.Release()
			t.drop()
		},
	}, nil
}

type request struct {
	account int
	reply   chan error
}

func send(pg *pgconn.PgConn, statement string, wave []request) {
	pipeline := pg.StartPipeline(context.Background())
	for _, r := range wave {
		pipeline.SendQueryPrepared(statement, [][]byte{[]byte(strconv.Itoa(r.account)), []byte("1")}, nil, nil)
		pipeline.SendPipelineSync()
	}
	err := pipeline.Flush()
	for _, r := range wave {
		if err == nil {
			err = result(pipeline)
		}
		r.reply <- err
	}
	_ = pipeline.Close()
}

// result reads one statement's results and the Sync behind it.
func result(pipeline *pgconn.Pipeline) error {
	results, err := pipeline.GetResults()
	if err != nil {
		return err
	}
	if reader, ok := results.(*pgconn.ResultReader); ok {
		if _, err := reader.Close(); err != nil {
			return err
		}
	}
	_, err = pipeline.GetResults()
	return err
}
