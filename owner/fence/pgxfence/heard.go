package pgxfence

import (
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// heard are results of a batch that listen to what callbacks are told: only so it is known what the
// database said, whatever a callback makes of it. And where a callback can't decode a value, it keeps that from
// pgx, which would then not read on, to the commit's result.
type heard struct {
	pgx.BatchResults
	conn *pgx.Conn
	rows *heardRows // that a callback has had
	err  error      // the first
}

func (h *heard) Exec() (pgconn.CommandTag, error) {
	tag, err := h.BatchResults.Exec()
	h.hear(err)
	return tag, err
}

func (h *heard) Query() (pgx.Rows, error) {
	rows, err := h.BatchResults.Query()
	h.hear(err)
	h.rows = &heardRows{Rows: rows, conn: h.conn}
	return h.rows, err
}

func (h *heard) QueryRow() pgx.Row {
	rows, _ := h.Query()
	return heardRow{rows}
}

// next runs q's callback if there is one, and returns its error. Afterwards h.err is up to date.
func (h *heard) next(q *pgx.QueuedQuery) (err error) {
	if q.Fn == nil {
		_, _ = h.Exec()
		return nil
	}
	err = q.Fn(h)
	if h.rows != nil {
		h.rows.Close()
		h.hear(h.rows.Rows.Err())
		h.rows = nil
	}
	return err
}

func (h *heard) hear(err error) {
	if h.err == nil {
		h.err = err
	}
}

type heardRows struct {
	pgx.Rows
	conn *pgx.Conn
	err  error // of a Scan
}

func (r *heardRows) Next() bool { return r.err == nil && r.Rows.Next() }

func (r *heardRows) Err() error {
	if r.err != nil {
		return r.err
	}
	return r.Rows.Err()
}

func (r *heardRows) Scan(dest ...any) error {
	if len(dest) == 1 {
		if s, ok := dest[0].(pgx.RowScanner); ok {
			return s.ScanRow(r)
		}
	}
	err := pgx.ScanRow(r.conn.TypeMap(), r.FieldDescriptions(), r.RawValues(), dest...)
	if r.err == nil {
		r.err = err
	}
	return err
}

type heardRow struct{ rows pgx.Rows }

func (r heardRow) Scan(dest ...any) error {
	defer r.rows.Close()
	if !r.rows.Next() {
		r.rows.Close() // its error may come only now
		if err := r.rows.Err(); err != nil {
			return err
		}
		return pgx.ErrNoRows
	}
	if err := r.rows.Scan(dest...); err != nil {
		return err
	}
	r.rows.Close()
	return r.rows.Err()
}
