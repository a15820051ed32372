package main

import (
	"context"
	stdsql "database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	_ "github.com/jackc/pgx/v5/stdlib" // the driver pgx
)

// A visit is the content of a message.
type visit struct {
	Counter string `json:"counter"`
}

// web is the web server: it publishes a message for each request. Its arguments are its address,
// and the URLs of the database and of the once server.
func web(ctx context.Context, args []string) error {
	p := place{args[1], args[2]}
	db, err := stdsql.Open("pgx", p.database)
	if err != nil {
		return err
	}
	publisher, err := newPublisher(db, p)
	if err != nil {
		return err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", args[0])
	if err != nil {
		return err
	}
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id := watermill.NewUUID()
		if p.server != "" { // a repeated request is the same message
			id = r.Header.Get("Idempotency-Key")
		}
		payload, err := json.Marshal(visit{r.URL.Path})
		if err == nil {
			err = publisher.Publish(topic, message.NewMessage(id, payload))
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	})}
	fmt.Println(listener.Addr())
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
