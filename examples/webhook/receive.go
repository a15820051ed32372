package main

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

// maxBody is as much as a message of once can have, in bytes.
const maxBody = 1 << 20

// A Push holds the fields of GitHub's push event that this receiver reads.
type Push struct {
	Ref        string
	After      string
	Repository struct {
		FullName string `json:"full_name"`
	}
}

// receive answers POST /hook. If the status is 2xx, the sender is done with the delivery; otherwise
// it sends it again.
func receive(secret string, j *journal, log *slog.Logger) (http.Handler, error) {
	key, err := standardwebhooks.NewWebhook(secret)
	if err != nil {
		return nil, fmt.Errorf("read secret: %w", err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /hook", func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
		if err != nil {
			return // the sender has gone, or sends what once never does
		}
		if err := key.Verify(body, r.Header); err != nil {
			http.Error(w, "wrong signature", http.StatusUnauthorized)
			return
		}
		e := entry{WebhookID: r.Header.Get("Webhook-Id"), Event: r.Header.Get("X-Github-Event")}
		if e.Event == "push" {
			var p Push
			if err := json.Unmarshal(body, &p); err != nil {
				http.Error(w, "not a push event", http.StatusBadRequest)
				return
			}
			e.Repository, e.Ref, e.Commit = p.Repository.FullName, p.Ref, p.After
		}
		fresh, err := j.add(e)
		if err != nil {
			log.Error("delivery not stored; the sender retries", "error", err)
			http.Error(w, "not kept", http.StatusInternalServerError)
			return
		}
		if !fresh {
			log.Info("duplicate delivery", "webhook_id", e.WebhookID)
		}
		w.WriteHeader(http.StatusNoContent)
	})
	return mux, nil
}
