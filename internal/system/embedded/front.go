package embedded

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net/http"
	"strings"

	"github.com/rs/cors"

	"github.com/effectively-once/once/internal/config"
	"github.com/effectively-once/once/internal/front/access"
	"github.com/effectively-once/once/internal/front/api"
	"github.com/effectively-once/once/internal/front/roles"
)

// A front stands between the listener and the handlers: encryption, and the check of callers.
// Without such settings, access and certificate are nil.
type front struct {
	config      *config.Server
	access      *access.Access // nil: everybody may call
	certificate *certificate   // nil: plain HTTP
	api         http.Handler   // behind access
	handler     http.Handler   // of the listener
}

// openFront reads the keys and the certificate of a server.
func (s *System) openFront() (err error) {
	f := &front{config: s.options.Server}
	if c := f.config; c != nil && !s.options.Inspect {
		if c.TLS != nil && s.options.Listen != "" {
			if f.certificate, err = openCertificate(*c.TLS, s.options.Log); err != nil {
				return err
			}
		}
		f.access, err = access.Open(access.Options{Config: c, Streams: s.options.Config.StreamNames(), Now: s.options.Now, Log: s.options.Log, Denied: s.denied})
		if err != nil {
			return err
		}
	}
	s.complete(f)
	s.front.Store(f)
	return nil
}

func (s *System) closeFront() {
	if f := s.front.Load(); f != nil && f.access != nil {
		f.access.Close()
	}
}

// Reload reads the keys and the certificate of the server again. What has a mistake stays as it
// was, and is in the error.
func (s *System) Reload() error {
	f := s.front.Load()
	var errs []error
	if f.access != nil {
		errs = append(errs, f.access.Reload())
	}
	if f.certificate != nil {
		errs = append(errs, f.certificate.reload())
	}
	return errors.Join(errs...)
}

// nextFront returns the front of another configuration. It reads keys and certificates again, also
// if the configuration is the same.
func (s *System) nextFront(c *config.Config) (*front, error) {
	before := s.front.Load()
	if before.access == nil || c.Server == nil {
		return before, nil
	}
	f := &front{config: c.Server, certificate: before.certificate}
	var err error
	if f.certificate != nil {
		if f.certificate, err = openCertificate(*c.Server.TLS, s.options.Log); err != nil {
			return nil, err
		}
	}
	if f.access, err = before.access.Next(c.Server, c.StreamNames()); err != nil {
		return nil, err
	}
	s.complete(f)
	return f, nil
}

// takeFront replaces the front. Requests that are under way end with the one before.
func (s *System) takeFront(f *front) {
	if before := s.front.Swap(f); before != f {
		before.access.Replaced(f.access)
	}
}

// complete sets the handlers of a front.
func (s *System) complete(f *front) {
	f.api = s.handler
	if f.access != nil {
		f.api = f.access.Handler(s.handler)
	}
	handler, origins := f.api, []string(nil)
	if f.config != nil && f.config.CORS != nil {
		origins = f.config.CORS.Origins
		handler = shared(handler, origins)
	}
	f.handler = guarded(handler, s.namesBy(f), origins, s.denied)
}

// namesBy returns the host names of the listener.
func (s *System) namesBy(f *front) []string {
	names := s.options.names()
	if f.config != nil {
		for _, name := range f.config.Hosts {
			names = append(names, hostName(name))
		}
	}
	return names
}

// certificates returns the settings of TLS for a listener, or nil for plain HTTP. The newest
// connections get the newest certificate.
func (s *System) certificates() *tls.Config {
	if s.front.Load().certificate == nil {
		return nil
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"},
		GetCertificate: func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
			return s.front.Load().certificate.get(hello)
		},
	}
}

// operator reports whether a key is the one of operators.
func (s *System) operator(key string) bool { return s.front.Load().access.Operator(key) }

// server returns the HTTP server for the listener.
func (s *System) server() *http.Server {
	server := api.Server(s.options.Listen, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { s.front.Load().handler.ServeHTTP(w, r) }))
	closeUnused(server)
	server.TLSConfig = s.certificates()
	if c := s.options.Server; c != nil {
		limitConnections(server, mostConnections(c))
		server.ErrorLog = slog.NewLogLogger(serverLog{s.options.Log.Handler()}, slog.LevelWarn)
	}
	return server
}

// A serverLog gets the lines of an HTTP server. Everybody can cause failed handshakes, so those are
// for debugging.
type serverLog struct{ slog.Handler }

// Handle implements [slog.Handler].
func (l serverLog) Handle(ctx context.Context, r slog.Record) error {
	if strings.HasPrefix(r.Message, "http: TLS handshake error") {
		r.Level = slog.LevelDebug
	}
	if !l.Enabled(ctx, r.Level) {
		return nil
	}
	return l.Handler.Handle(ctx, r)
}

// filesBesides is how many files are kept for the database, destinations and requests to them.
const filesBesides = 2048

// mostConnections returns how many connections may be open. It is fewer than the setting if the
// process may not have so many files open: otherwise the database could not open its own.
func mostConnections(c *config.Server) int {
	limit := cmp.Or(c.Connections, config.DefaultConnections)
	files := maxFiles()
	if files == 0 {
		return limit
	}
	return min(limit, max(files-filesBesides, files/2))
}

// shared lets web pages of other origins read the answers of the HTTP API, but not of the console.
func shared(next http.Handler, origins []string) http.Handler {
	policy := cors.New(cors.Options{
		AllowedOrigins: origins,
		AllowedMethods: []string{http.MethodGet, http.MethodHead, http.MethodPut, http.MethodPost, http.MethodDelete},
		AllowedHeaders: []string{"*"},
		ExposedHeaders: []string{
			"Location", "Retry-After", "Idempotent-Replayed", "Once-Reply", "Once-Next", "Once-End", "Preference-Applied", "ETag",
			"Stream-Next-Offset", "Stream-Cursor", "Stream-Up-To-Date", "Stream-Closed", "Producer-Epoch", "Producer-Seq", "Producer-Expected-Seq", "Producer-Received-Seq",
		},
		MaxAge: 600,
	}).Handler(next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if access.IsConsole(r.URL.Path) {
			next.ServeHTTP(w, r)
			return
		}
		policy.ServeHTTP(w, r)
	})
}

// streamsOf returns the streams that the caller of a request may know of.
func (s *System) streamsOf(r *http.Request) []string {
	return roles.Allowed(r, s.engine.StreamNames())
}
