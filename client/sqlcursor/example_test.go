package sqlcursor_test

import (
	"context"
	"database/sql"
	"errors"
	"log"
	"os"
	"os/signal"

	"github.com/effectively-once/once/client"
	"github.com/effectively-once/once/client/sqlcursor"
)

// openRows opens a file of SQLite, and makes the table of the cursors and that of the work.
// Transactions take the lock of the file when they begin, and wait for each other. The program
// imports the driver: _ "modernc.org/sqlite".
func openRows(ctx context.Context) (*sql.DB, error) {
	db, err := sql.Open("sqlite", "file:rows.db?_txlock=immediate&_pragma=busy_timeout(10000)&_pragma=journal_mode(WAL)")
	if err != nil {
		return nil, err
	}
	_, err = db.ExecContext(ctx, sqlcursor.SQLite.CreateTable(sqlcursor.DefaultTable)+"; CREATE TABLE IF NOT EXISTS orders (id TEXT, body TEXT)")
	return db, err
}

// insert makes a row of each order, in the transaction that moves the number.
func insert(ctx context.Context, tx *sql.Tx, entries []client.Entry) error {
	for _, e := range entries {
		if _, err := tx.ExecContext(ctx, "INSERT INTO orders VALUES (?, ?)", e.ID, string(e.Body)); err != nil {
			return err
		}
	}
	return nil
}

func consume(ctx context.Context, c *client.Client, db *sql.DB) error {
	table := sqlcursor.Table{DB: db, Dialect: sqlcursor.SQLite}
	return table.Consume(ctx, c, client.SessionOptions{Stream: "work", Name: "a"}, insert)
}

// Consume does all steps in the right order, until the program is interrupted or the stream has
// ended.
func ExampleTable_Consume() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	db, err := openRows(ctx)
	if err != nil {
		log.Fatal(err)
	}
	c, err := client.New("http://127.0.0.1:8080", client.Options{})
	if err != nil {
		log.Fatal(err)
	}

	if err := consume(ctx, c, db); err != nil && ctx.Err() == nil {
		log.Fatal(err)
	}
}

// follow opens the session and the cursor, and processes entries until an error. After most errors
// the caller opens both again, as Table.Consume does: the last transaction may be committed.
func follow(ctx context.Context, c *client.Client, table sqlcursor.Table) error {
	session, err := c.OpenSession(ctx, client.SessionOptions{Stream: "work", Name: "a"})
	if err != nil {
		return err
	}
	defer session.Close()
	// Open raises the fence in the database, and reads the number in the same statement.
	cursor, err := table.Open(ctx, session.Opened())
	if err != nil {
		return err
	}
	if err := session.Continue(ctx, cursor.Number()); err != nil {
		return err
	}
	for {
		batch, err := session.Next(ctx)
		if err != nil {
			return err
		}
		err = cursor.Do(ctx, batch.To, func(tx *sql.Tx) error { return insert(ctx, tx, batch.Entries) })
		if err != nil {
			return err
		}
		if err := session.Commit(ctx, batch.To, client.CommitOptions{}); err != nil {
			return err
		}
	}
}

// A consumer that does the steps by itself opens the session, opens the cursor, continues after its
// number, and commits after each transaction.
func ExampleCursor_Do() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	db, err := openRows(ctx)
	if err != nil {
		log.Fatal(err)
	}
	c, err := client.New("http://127.0.0.1:8080", client.Options{})
	if err != nil {
		log.Fatal(err)
	}

	err = follow(ctx, c, sqlcursor.Table{DB: db, Dialect: sqlcursor.SQLite})
	if !errors.Is(err, client.ErrEnd) && ctx.Err() == nil {
		log.Fatal(err)
	}
}
