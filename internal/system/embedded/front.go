package embedded

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"

	"github.com/rs/cors"

	"github.com/effectively-once/once/internal/config"
	"github.com/effectively-once/once/internal/front/access"
	"github.com/effectively-once/once/internal/front/api"
)

// A front is what the settings of a server put between the listener and the handlers: encryption,
// and who may call. The zero value is that of a system without such settings.
type front struct {
	access      *access.Access // nil: everybody may call
	certificate *certificate   // nil: plain HTTP
}

// openFront reads the keys and the certificate of a server.
func (s *System) openFront() (err error) {
	c := s.options.Server
	if c == nil || s.options.Inspect {
		return nil
	}
	if c.TLS != nil {
		if s.front.certificate, err = openCertificate(*c.TLS, s.options.Log); err != nil {
			return err
		}
	}
	s.front.access, err = access.Open(access.Options{Config: c, Streams: s.options.Config.StreamNames(), Now: s.options.Now, Log: s.options.Log})
	return err
}

func (s *System) closeFront() {
	if s.front.access != nil {
		s.front.access.Close()
	}
}

// Reload reads the keys and the certificate of the server again. What has a mistake stays as it
// was, and is in the error.
func (s *System) Reload() error {
	var errs []error
	if s.front.access != nil {
		errs = append(errs, s.front.access.Reload())
	}
	if s.front.certificate != nil {
		errs = append(errs, s.front.certificate.reload())
	}
	return errors.Join(errs...)
}

// server returns the HTTP server for the listener.
func (s *System) server() *http.Server {
	handler, c := s.handler, s.options.Server
	if s.front.access != nil {
		handler = s.front.access.Handler(handler)
	}
	var origins []string
	if c != nil && c.CORS != nil {
		origins = c.CORS.Origins
		handler = shared(handler, origins)
	}
	server := api.Server(s.options.Listen, guarded(handler, s.options.names(), origins))
	closeUnused(server)
	if s.front.certificate != nil {
		server.TLSConfig = s.front.certificate.settings()
		server.TLSConfig.NextProtos = []string{"h2", "http/1.1"}
	}
	if c != nil {
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
	return access.Allowed(r, s.engine.StreamNames())
}
