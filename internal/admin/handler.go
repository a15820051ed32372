package admin

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Handler serves an Admin as JSON over HTTP, for [Dial].
func Handler(a Admin) http.Handler { return handler(a, func(int, int) error { return nil }) }

// limits refuses lists that are too long to be sent.
type limits func(limit, content int) error

// handler serves an Admin.
func handler(a Admin, bounded limits) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /stats", answer(nil, func(r *http.Request) (any, error) { return a.Stats(r.Context()) }))
	mux.Handle("GET /groups", answer([]string{"stream", "after", "limit"}, func(r *http.Request) (any, error) { return groups(a, r, bounded) }))
	mux.Handle("GET /group", answer([]string{"stream", "group"}, func(r *http.Request) (any, error) {
		return a.Group(r.Context(), r.Form.Get("stream"), r.Form.Get("group"))
	}))
	mux.Handle("GET /message", answer([]string{"stream", "id"}, func(r *http.Request) (any, error) {
		return a.Message(r.Context(), r.Form.Get("stream"), r.Form.Get("id"))
	}))
	mux.Handle("GET /by-hash", answer([]string{"stream", "hash"}, func(r *http.Request) (any, error) { return byHash(a, r) }))
	mux.Handle("GET /dead-letters", answer([]string{"queue", "stream", "reason", "id", "limit", "content"}, func(r *http.Request) (any, error) {
		return deadLetters(a, r, bounded)
	}))
	mux.Handle("POST /sweep", answer(nil, func(r *http.Request) (any, error) { return a.Sweep(r.Context()) }))
	mux.Handle("POST /redrive", answer([]string{"queue", "stream", "reason", "id", "max", "answered", "by"}, func(r *http.Request) (any, error) { return redrive(a, r) }))
	mux.Handle("POST /drop", answer([]string{"queue", "stream", "reason", "id", "until", "message_id", "by"}, func(r *http.Request) (any, error) { return drop(a, r) }))
	mux.Handle("POST /skip", answer([]string{"stream", "group", "number"}, func(r *http.Request) (any, error) { return skip(a, r) }))
	mux.Handle("GET /schedules", answer(nil, func(r *http.Request) (any, error) { return listed(a.Schedules(r.Context())) }))
	if b, ok := a.(Backuper); ok {
		mux.Handle("POST /backup", answer([]string{"dir"}, func(r *http.Request) (any, error) { return backUp(b, r) }))
	}
	return mux
}

func groups(a Admin, r *http.Request, bounded limits) (any, error) {
	limit, err := number(r, "limit")
	if err == nil {
		err = bounded(limit, 0)
	}
	if err != nil {
		return nil, err
	}
	o := GroupsOptions{Stream: r.Form.Get("stream"), After: r.Form.Get("after"), Limit: limit}
	return listed(a.Groups(r.Context(), o))
}

func byHash(a Admin, r *http.Request) (any, error) {
	o := HashOptions{Stream: r.Form.Get("stream"), Hash: r.Form.Get("hash")}
	if err := o.Validate(); err != nil {
		return nil, badRequest{err}
	}
	return a.ByHash(r.Context(), o)
}

func deadLetters(a Admin, r *http.Request, bounded limits) (any, error) {
	limit, err := number(r, "limit")
	if err != nil {
		return nil, err
	}
	content, err := strconv.Atoi(cmp.Or(r.Form.Get("content"), "0"))
	if err != nil {
		return nil, badRequest{errors.New("content must be a whole number")}
	}
	if err := bounded(limit, content); err != nil {
		return nil, err
	}
	o := DeadLettersOptions{
		Queue: r.Form.Get("queue"), Stream: r.Form.Get("stream"), Reason: r.Form.Get("reason"), ID: r.Form.Get("id"), Limit: limit, Content: content,
	}
	return listed(a.DeadLetters(r.Context(), o))
}

func redrive(a Admin, r *http.Request) (any, error) {
	limit, err := number(r, "max")
	if err != nil {
		return nil, err
	}
	answered, err := strconv.ParseBool(cmp.Or(r.Form.Get("answered"), "false"))
	if err != nil {
		return nil, badRequest{errors.New("answered must be true or false")}
	}
	o := RedriveOptions{
		Queue: r.Form.Get("queue"), Stream: r.Form.Get("stream"), Reason: r.Form.Get("reason"), ID: r.Form.Get("id"), Max: limit, Answered: answered, By: r.Form.Get("by"),
	}
	return a.Redrive(r.Context(), o)
}

func skip(a Admin, r *http.Request) (any, error) {
	number, err := strconv.ParseUint(r.Form.Get("number"), 10, 64)
	if err != nil {
		return nil, badRequest{errors.New("number must be a whole number, at least 0")}
	}
	return a.Skip(r.Context(), SkipOptions{Stream: r.Form.Get("stream"), Group: r.Form.Get("group"), Number: number})
}

func backUp(b Backuper, r *http.Request) (any, error) {
	dir := r.Form.Get("dir")
	if !filepath.IsAbs(dir) {
		return nil, badRequest{errors.New("dir must be an absolute path")}
	}
	return b.Backup(r.Context(), dir)
}

func drop(a Admin, r *http.Request) (any, error) {
	o := DropOptions{Queue: r.Form.Get("queue"), Stream: r.Form.Get("stream"), Reason: r.Form.Get("reason"), ID: r.Form.Get("id"), By: r.Form.Get("by")}
	o.MessageIDs = r.Form["message_id"]
	if text := r.Form.Get("until"); text != "" {
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
	text := r.Form.Get(field)
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

// answer serves one operation. A parameter that it does not know is refused: without the one that
// was meant, a drop would select more.
func answer(names []string, ask func(*http.Request) (any, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		err := parameters(r, names)
		var body any
		if err == nil {
			body, err = ask(r)
		}
		status := http.StatusOK
		if err != nil {
			status, body = statusOf(err), failure{Error: err.Error()}
		}
		// An operation may take longer than the server gives its requests. An error means that the
		// connection has no deadlines.
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(slowest)) //nolint:forbidigo // the clock of the network
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		// An error means that the client has disconnected.
		_ = json.NewEncoder(w).Encode(body)
	})
}

// slowest is how long a client may take to read an answer.
const slowest = 2 * time.Minute

// parameters reads the parameters of a request, from its query and from its form.
func parameters(r *http.Request, names []string) error {
	if kind, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";"); r.ContentLength != 0 && kind != formType {
		return badRequest{errors.New("the body must be a form: Content-Type: " + formType)}
	}
	if err := r.ParseForm(); err != nil {
		return badRequest{fmt.Errorf("parameters: %w", err)}
	}
	for _, name := range slices.Sorted(maps.Keys(r.Form)) {
		switch {
		case !slices.Contains(names, name):
			return badRequest{fmt.Errorf("%q is not a parameter of this operation; it has: %s", name, strings.Join(names, ", "))}
		case len(r.Form[name]) > 1 && name != "message_id":
			return badRequest{fmt.Errorf("%s must be given once", name)}
		}
	}
	return nil
}

// formType is the media type of parameters in a body.
const formType = "application/x-www-form-urlencoded"

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
