// Command charges is a service with replicas whose middleware keeps its tokens in PostgreSQL. It
// notes each run of its handler in a table, so that a test can count them.
//
//	DATABASE_URL=postgres://... charges ADDRESS REPLICA LEASE
package main

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib"

	"github.com/effectively-once/once"
	"github.com/effectively-once/once/oncesql"
)

func main() {
	if err := serve(context.Background(), os.Args[1], os.Args[2], os.Args[3]); err != nil {
		fmt.Fprintln(os.Stderr, "charges:", err)
		os.Exit(1)
	}
}

func serve(ctx context.Context, address, replica, lease string) error {
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	limit, err := time.ParseDuration(lease)
	if err != nil {
		return fmt.Errorf("read lease: %w", err)
	}
	db, err := sql.Open("pgx", os.Getenv("DATABASE_URL"))
	if err != nil {
		return fmt.Errorf("open database: %w", err)
	}
	table := oncesql.Table{DB: db, Dialect: oncesql.PostgreSQL}
	if err := table.Create(ctx); err != nil {
		return err
	}
	go table.SweepEvery(ctx, time.Minute, log)
	tokens, err := table.Tokens()
	if err != nil {
		return err
	}
	protect := once.Middleware(tokens, once.MiddlewareConfig{Name: "charges", Lease: limit, Log: log})
	mux := http.NewServeMux()
	mux.Handle("POST /charges", protect(&charges{db: db, replica: replica}))
	mux.HandleFunc("GET /ready", func(http.ResponseWriter, *http.Request) {})
	server := &http.Server{Addr: address, Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	return server.ListenAndServe()
}

// charges charges cards.
type charges struct {
	db      *sql.DB
	replica string
}

type charge struct {
	ID     string `json:"id"`
	Amount int    `json:"amount"`
}

func (c *charges) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var request struct {
		Amount int `json:"amount"`
		// Milliseconds is how long the payment provider takes.
		Milliseconds int `json:"ms"`
	}
	if err := json.NewDecoder(r.Body).Decode(&request); err != nil {
		http.Error(w, "the body is no charge", http.StatusBadRequest)
		return
	}
	made := charge{ID: rand.Text(), Amount: request.Amount}
	_, err := c.db.ExecContext(r.Context(), "INSERT INTO charge_runs (key, replica, charge) VALUES ($1, $2, $3)", r.Header.Get("Idempotency-Key"), c.replica, made.ID)
	if err != nil {
		http.Error(w, "the database is not there", http.StatusServiceUnavailable) // not kept
		return
	}
	// real time: a payment provider takes a while
	time.Sleep(time.Duration(request.Milliseconds) * time.Millisecond)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusCreated)
	_ = json.NewEncoder(w).Encode(made) // the recorder of the middleware takes it
}
