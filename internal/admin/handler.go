package admin

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"path/filepath"
	"strconv"
	"time"
)

// Handler serves an Admin as JSON over HTTP, for [Dial].
func Handler(a Admin) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /stats", answer(func(r *http.Request) (any, error) { return a.Stats(r.Context()) }))
	mux.Handle("GET /groups", answer(func(r *http.Request) (any, error) {
		limit, err := number(r, "limit")
		if err != nil {
			return nil, err
		}
		o := GroupsOptions{Stream: r.FormValue("stream"), After: r.FormValue("after"), Limit: limit}
		return listed(a.Groups(r.Context(), o))
	}))
	mux.Handle("GET /group", answer(func(r *http.Request) (any, error) {
		return a.Group(r.Context(), r.FormValue("stream"), r.FormValue("group"))
	}))
	mux.Handle("GET /message", answer(func(r *http.Request) (any, error) {
		return a.Message(r.Context(), r.FormValue("stream"), r.FormValue("id"))
	}))
	mux.Handle("GET /by-hash", answer(func(r *http.Request) (any, error) {
		o := HashOptions{Stream: r.FormValue("stream"), Hash: r.FormValue("hash")}
		if err := o.Validate(); err != nil {
			return nil, badRequest{err}
		}
		return a.ByHash(r.Context(), o)
	}))
	mux.Handle("GET /dead-letters", answer(func(r *http.Request) (any, error) {
		limit, err := number(r, "limit")
		if err != nil {
			return nil, err
		}
		content, err := strconv.Atoi(cmp.Or(r.FormValue("content"), "0"))
		if err != nil {
			return nil, badRequest{errors.New("content must be a whole number")}
		}
		o := DeadLettersOptions{
			Queue: r.FormValue("queue"), Stream: r.FormValue("stream"), Reason: r.FormValue("reason"), ID: r.FormValue("id"), Limit: limit, Content: content,
		}
		return listed(a.DeadLetters(r.Context(), o))
	}))
	mux.Handle("POST /sweep", answer(func(r *http.Request) (any, error) { return a.Sweep(r.Context()) }))
	mux.Handle("POST /redrive", answer(func(r *http.Request) (any, error) {
		limit, err := number(r, "max")
		if err != nil {
			return nil, err
		}
		o := RedriveOptions{Queue: r.FormValue("queue"), Stream: r.FormValue("stream"), Reason: r.FormValue("reason"), ID: r.FormValue("id"), Max: limit}
		return a.Redrive(r.Context(), o)
	}))
	mux.Handle("POST /drop", answer(func(r *http.Request) (any, error) { return drop(a, r) }))
	mux.Handle("POST /skip", answer(func(r *http.Request) (any, error) {
		number, err := strconv.ParseUint(r.FormValue("number"), 10, 64)
		if err != nil {
			return nil, badRequest{errors.New("number must be a whole number, at least 0")}
		}
		return a.Skip(r.Context(), SkipOptions{Stream: r.FormValue("stream"), Group: r.FormValue("group"), Number: number})
	}))
	if b, ok := a.(Backuper); ok {
		mux.Handle("POST /backup", answer(func(r *http.Request) (any, error) {
			dir := r.FormValue("dir")
			if !filepath.IsAbs(dir) {
				return nil, badRequest{errors.New("dir must be an absolute path")}
			}
			return b.Backup(r.Context(), dir)
		}))
	}
	return mux
}

func drop(a Admin, r *http.Request) (any, error) {
	o := DropOptions{Queue: r.FormValue("queue"), Stream: r.FormValue("stream"), Reason: r.FormValue("reason"), ID: r.FormValue("id"), By: r.FormValue("by")}
	o.MessageIDs = r.Form["message_id"] // FormValue has parsed it
	if text := r.FormValue("until"); text != "" {
		until, err := time.Parse(time.RFC3339Nano, text)
		if err != nil {
			return nil, badRequest{errors.New("until must be a time as RFC 3339 writes it")}
		}
		o.Until = until
	}
	if err := o.Validate(); err != nil {
		return nil, badRequest{err}
	}
	return a.Drop(r.Context(), o)
}

// failure is the body of every answer but 200.
type failure struct {
	Error string `json:"error"`
}

// badRequest is an invalid request.
type badRequest struct{ error }

func number(r *http.Request, field string) (int, error) {
	text := r.FormValue(field)
	if text == "" {
		return 0, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		return 0, badRequest{errors.New(field + " must be a whole number, at least 0")}
	}
	return n, nil
}

// listed returns an empty list instead of nil, so that JSON has [] and not null.
func listed[T any](list []T, err error) (any, error) {
	if list == nil {
		list = []T{}
	}
	return list, err
}

func answer(ask func(*http.Request) (any, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		status := http.StatusOK
		body, err := ask(r)
		if err != nil {
			status, body = statusOf(err), failure{Error: err.Error()}
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		// An error means that the client has disconnected.
		_ = json.NewEncoder(w).Encode(body)
	})
}

func statusOf(err error) int {
	var bad badRequest
	switch {
	case errors.Is(err, ErrNotFound):
		return http.StatusNotFound
	case errors.As(err, &bad):
		return http.StatusBadRequest
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return http.StatusServiceUnavailable
	}
	return http.StatusInternalServerError
}
