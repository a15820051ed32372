package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/effectively-once/once/client"
	"github.com/effectively-once/once/client/sqlcursor"
)

func sessionOptions(args []string) client.SessionOptions {
	return client.SessionOptions{Stream: "work", Name: args[2], Holder: args[3], Take: client.Take(args[4]), Lease: lease, Max: batch, Wait: time.Second}
}

// open opens the table of a consumer, and a client.
func open(args []string) (*sql.DB, *client.Client, error) {
	db, err1 := openRows(args[1])
	c, err2 := newClient(args[0])
	return db, c, errors.Join(err1, err2)
}

// consumeOnce inserts the rows in the transaction that moves the cursor.
func consumeOnce(ctx context.Context, args []string) error {
	db, c, err := open(args)
	if err != nil {
		return err
	}
	table := sqlcursor.Table{DB: db, Dialect: sqlcursor.SQLite}
	if _, err := db.ExecContext(ctx, table.Dialect.CreateTable(sqlcursor.DefaultTable)); err != nil {
		return err
	}
	fmt.Println("ready")
	err = table.Consume(ctx, c, sessionOptions(args), func(ctx context.Context, tx *sql.Tx, entries []client.Entry) error {
		time.Sleep(effort) // the work that each subject of this benchmark does
		return insert(ctx, tx, idsOf(entries))
	})
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

func idsOf(entries []client.Entry) (ids []string) {
	for i := range entries {
		ids = append(ids, entries[i].ID)
	}
	return ids
}

// consumeAfter inserts the rows, and then stores its cursor, without a look at the fence.
func consumeAfter(ctx context.Context, args []string) error {
	db, c, err := open(args)
	if err != nil {
		return err
	}
	if _, err := db.ExecContext(ctx, "CREATE TABLE IF NOT EXISTS cursors (session TEXT PRIMARY KEY, number INTEGER)"); err != nil {
		return err
	}
	fmt.Println("ready")
	for o := sessionOptions(args); ctx.Err() == nil; {
		err := holdAfter(ctx, db, c, o)
		if errors.Is(err, client.Fenced) {
			o.Take = client.TakeFree
		}
		time.Sleep(10 * time.Millisecond) // the server may be killed just now
	}
	return nil
}

// holdAfter consumes a session until another consumer has it.
func holdAfter(ctx context.Context, db *sql.DB, c *client.Client, o client.SessionOptions) error {
	s, err := c.OpenSession(ctx, o)
	if err != nil {
		return err
	}
	defer s.Close()
	var number uint64
	if err := db.QueryRowContext(ctx, "SELECT number FROM cursors WHERE session = $1", o.Name).Scan(&number); err != nil && !errors.Is(err, sql.ErrNoRows) {
		return err
	}
	if err := s.Continue(ctx, number); err != nil {
		return err
	}
	for {
		b, err := s.Next(ctx)
		if errors.Is(err, client.ErrEnd) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := work(context.Background(), db, idsOf(b.Entries)); err != nil {
			return err
		}
		if _, err := db.ExecContext(context.Background(), "INSERT INTO cursors VALUES ($1, $2) ON CONFLICT (session) DO UPDATE SET number = excluded.number", o.Name, b.To); err != nil {
			return err
		}
		if err := s.Commit(ctx, b.To, client.CommitOptions{}); err != nil {
			return err
		}
	}
}
