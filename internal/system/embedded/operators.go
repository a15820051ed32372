package embedded

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"

	"golang.org/x/time/rate"

	"github.com/effectively-once/once/internal/admin"
	"github.com/effectively-once/once/internal/front/access"
	"github.com/effectively-once/once/internal/front/api"
	"github.com/effectively-once/once/internal/front/problem"
	"github.com/effectively-once/once/internal/front/sqsapi"
)

// operatorConnections is how many connections the listener for operators has.
const operatorConnections = 256

// serveOperators opens the listener for operators on other machines, if the configuration has one.
// It has the certificate of the server.
func (s *System) serveOperators(ctx context.Context) (stop func(), err error) {
	c := s.options.Server
	if c == nil || c.Admin == nil || c.Admin.Listen == "" || s.options.Listen == "" {
		return func() {}, nil
	}
	listener, err := access.Listen(context.WithoutCancel(ctx), c.Admin.Listen)
	if err != nil {
		return nil, fmt.Errorf("listen for operators: %w", err)
	}
	server := api.Server(c.Admin.Listen, s.operators())
	closeUnused(server)
	limitConnections(server, operatorConnections)
	server.ErrorLog = slog.NewLogLogger(serverLog{s.options.Log.Handler()}, slog.LevelWarn)
	scheme, serve := "http", server.Serve
	if server.TLSConfig = s.certificates(); server.TLSConfig != nil {
		scheme, serve = "https", func(l net.Listener) error { return server.ServeTLS(l, "", "") }
	}
	go func() { _ = serve(listener) }() // ends with Shutdown, and says so
	s.options.Log.Info("ready for operators", "url", scheme+"://"+listener.Addr().String())
	return func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTime)
		defer cancel()
		if server.Shutdown(ctx) != nil {
			_ = server.Close() // whoever still asks then gets no answer
		}
	}, nil
}

// operators serves the operations, and the HTTP API for all streams: an operator reads logs and
// changes sessions at the same address.
func (s *System) operators() http.Handler {
	operations := admin.Guard(s.operator, s.untilDraining(s.audited(admin.Remote(s))))
	open := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasPrefix(r.URL.Path, admin.Path+"/"):
			operations.ServeHTTP(w, r)
		case !admin.Allowed(r, s.operator):
			w.Header().Set("WWW-Authenticate", `Bearer realm="once admin"`)
			w.Header().Set("Connection", "close")
			problem.New(problem.Unauthorized, "This is the address for operators: send their key, as Authorization: Bearer KEY.").Write(w, "")
		case sqsapi.Handles(r) || access.IsConsole(r.URL.Path): // the former is recognised by a header
			problem.New(problem.UnknownRoute, "").Write(w, "")
		default:
			s.front.Load().access.Lasting(w, r, s.handler, admin.Bearer(r))
		}
	})
	noted := rate.NewLimiter(1, 10) // lines in the log
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer := &statusWriter{ResponseWriter: w}
		open.ServeHTTP(answer, r)
		if answer.status != http.StatusUnauthorized {
			return
		}
		if s.denied(access.DeniedOperator); noted.Allow() {
			s.options.Log.Warn("request of an operator refused", "from", r.RemoteAddr, "method", r.Method, "why", "no key, or an unknown one")
		}
	})
}

// audited logs every operation that changes something.
func (s *System) audited(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			next.ServeHTTP(w, r)
			return
		}
		began, answer := s.options.Now(), &statusWriter{ResponseWriter: w}
		next.ServeHTTP(answer, r)
		s.options.Log.Info("operation of an operator", "operation", strings.TrimPrefix(r.URL.Path, admin.Path+"/"), "from", r.RemoteAddr,
			"status", cmp.Or(answer.status, http.StatusOK), "took", s.options.Now().Sub(began))
	})
}

// untilDraining ends operations when the system is about to end: the database is closed then.
func (s *System) untilDraining(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !s.requests.enter() {
			problem.New(problem.Unavailable, "The server is ending.").Write(w, "")
			return
		}
		defer s.requests.leave()
		ctx, cancel := context.WithCancel(r.Context())
		defer cancel()
		go func() {
			select {
			case <-s.draining:
				cancel()
			case <-ctx.Done():
			}
		}()
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

// A statusWriter remembers the status of an answer.
type statusWriter struct {
	http.ResponseWriter
	status int
}

// WriteHeader implements [http.ResponseWriter].
func (w *statusWriter) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

// Unwrap is for [http.ResponseController].
func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
