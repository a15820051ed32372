package oncesql_test

import (
	"context"
	"database/sql"
	"log/slog"
	"net/http"
	"os"
	"time"

	"github.com/effectively-once/once"
	"github.com/effectively-once/once/oncesql"
)

// A service with replicas: each replica opens the same table. The program imports the driver, here
// _ "github.com/jackc/pgx/v5/stdlib".
func Example() {
	ctx := context.Background()
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	db, err := sql.Open("pgx", os.Getenv("DATABASE_URL"))
	if err != nil {
		panic(err)
	}
	table := oncesql.Table{DB: db, Dialect: oncesql.PostgreSQL}
	if err := table.Create(ctx); err != nil {
		panic(err)
	}
	go table.SweepEvery(ctx, time.Hour, log)
	tokens, err := table.Tokens()
	if err != nil {
		panic(err)
	}

	charge := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusCreated) // after charging the card
	})
	mux := http.NewServeMux()
	mux.Handle("POST /charges", once.Middleware(tokens, once.MiddlewareConfig{Name: "charges", Log: log})(charge))
	if err := http.ListenAndServe("127.0.0.1:8080", mux); err != nil {
		panic(err)
	}
}
