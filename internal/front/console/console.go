package console

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"embed"
	"errors"
	"fmt"
	"html/template"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/effectively-once/once/client"
	"github.com/effectively-once/once/internal/admin"
	"github.com/effectively-once/once/internal/front/inprocess"
	"github.com/effectively-once/once/internal/record"
)

// Path is the path of the first page.
const Path = "/console"

// A System answers the questions of the pages.
type System interface {
	admin.Admin
	// Overview returns the waiting groups without reading the whole store.
	Overview(ctx context.Context, limit int) (admin.Overview, error)
}

// A Quick is a System that can look for a message in a bounded time. It may not find one that
// Message and ByHash find by reading the whole store.
type Quick interface {
	QuickMessage(ctx context.Context, stream, id string) (admin.MessageInfo, error)
	QuickByHash(ctx context.Context, o admin.HashOptions) (admin.MessageInfo, error)
}

// Options configure the console. All fields are required unless they say otherwise.
type Options struct {
	System System
	// API is the HTTP API of the system. The console sends, tails and lists sessions through it. It
	// is not used with Remote.
	API http.Handler
	// Remote is set if the system is elsewhere. Optional.
	Remote *Remote
	// Streams returns the streams by name.
	Streams func() []record.Stream
	// Rates returns the charts of a stream, or of all streams together for the empty name. Without
	// it the pages have no charts.
	Rates func(ctx context.Context, stream string) (Rates, error)
	// Allowed reports whether the Host of a request is a name of this server.
	Allowed func(host string) bool
	// Write allows the console to send, redrive, drop and skip. Defaults to false.
	Write bool
	// DataDir is the data folder, for the commands that the pages name.
	DataDir string
	// Done is closed when the system ends: pages that renew themselves end then.
	Done <-chan struct{}
	Now  func() time.Time
	Log  *slog.Logger
}

// A Remote is a system elsewhere, each answer of which costs time and money. Its pages are renewed
// every [remoteRenewal], and those that read a whole table or receive messages are not renewed.
type Remote struct {
	// Name names the system for people.
	Name string
	// Flags address the system in commands.
	Flags []string
	// Client calls the HTTP API of the system.
	Client *client.Client
}

//go:embed static
var static embed.FS

//go:embed templates
var sources embed.FS

// console serves the pages; it keeps nothing between requests but the pages that are followed.
type console struct {
	Options
	api       *client.Client
	token     string
	templates map[string]*template.Template
	renewal   time.Duration
	feeds     feeds
	views     views
}

// A page has the data of one page.
type page func(r *http.Request) (view, error)

// Handler returns the console for [Path] and the paths below it.
func Handler(o Options) (http.Handler, error) {
	templates, err := parse()
	if err != nil {
		return nil, err
	}
	c := &console{Options: o, token: rand.Text(), templates: templates, renewal: renewal, feeds: feeds{byPage: map[string]*feed{}}}
	if o.Remote != nil {
		c.api, c.renewal = o.Remote.Client, remoteRenewal
		return c.handler(), nil
	}
	// The client is not for a network: a try that fails at all fails for good.
	c.api, err = client.New(localURL, client.Options{HTTP: &http.Client{Transport: inprocess.Transport{Handler: o.API}}, MaxElapsed: apiTime})
	if err != nil {
		return nil, err
	}
	return c.handler(), nil
}

// handler returns the routes.
func (c *console) handler() http.Handler {
	mux := http.NewServeMux()
	live := map[string]page{
		"": c.overview, "/groups": c.groups, "/group": c.group, "/message": c.message, "/letters": c.letters, "/letter": c.letter, "/log": c.log, "/sessions": c.sessions, "/totals": c.totals,
	}
	// These pages do not renew themselves: they have a form, or never change.
	still := map[string]page{"/streams": c.streams, "/find": c.find, "/send": c.sendForm}
	forms := map[string]page{"/send": c.send, "/redrive": c.redrive, "/drop": c.drop, "/skip": c.skip}
	allow := map[string][]string{}
	for _, pages := range []map[string]page{live, still} {
		for path, p := range pages {
			renewed := live[path] != nil && (c.Remote == nil || !slices.Contains(costly, path))
			mux.Handle("GET "+Path+path, c.show(c.kept(p), renewed))
			allow[path] = []string{http.MethodGet, http.MethodHead}
		}
	}
	for path, do := range forms {
		mux.Handle("POST "+Path+path, c.write(do))
		allow[path] = append(allow[path], http.MethodPost)
	}
	for path, methods := range allow {
		mux.Handle(Path+path, c.notAllowed(methods))
	}
	// Each file has a route: the folder lists nothing.
	files := http.StripPrefix(Path+"/", http.FileServerFS(static))
	for _, name := range []string{"script.js", "style.css"} {
		mux.Handle("GET "+Path+"/static/"+name, files)
	}
	mux.Handle("GET "+Path+"/{$}", http.RedirectHandler(Path, http.StatusSeeOther))
	mux.Handle("/", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.fail(w, r, &failure{status: http.StatusNotFound, text: "There is no such page."})
	}))
	return c.guard(mux)
}

// costly are the pages of a system elsewhere that are not renewed: they scan a table, or receive
// dead letters, which hides them from other receivers for some time.
var costly = []string{"/groups", "/letters", "/letter", "/totals"} //nolint:gochecknoglobals // a constant

// notAllowed returns the handler of requests to a page with another method than its own.
func (c *console) notAllowed(methods []string) http.Handler {
	allow := strings.Join(methods, ", ")
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Allow", allow)
		c.fail(w, r, &failure{status: http.StatusMethodNotAllowed, text: "This page takes " + allow + " only."})
	})
}

// apiTime bounds a call of the HTTP API in this process.
const apiTime = 10 * time.Second

// guard sets the headers of every answer, and refuses foreign host names and pages.
func (c *console) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		// Not no-referrer: browsers then send the Origin of a form as null.
		h.Set("Referrer-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		if !c.Allowed(r.Host) {
			c.fail(w, r, &failure{status: http.StatusForbidden, text: fmt.Sprintf("The Host %.100q is not a name of this server. Call it by its address, or allow the name with --allow-host NAME", r.Host)})
			return
		}
		if foreign(r) {
			c.fail(w, r, &failure{status: http.StatusForbidden, text: "A page of another site may only link to the console."})
			return
		}
		next.ServeHTTP(w, r)
	})
}

// foreign reports whether a page of another site loads something of the console: an image, a frame,
// or events. It could not read the answer, but make the server work. Links are allowed.
func foreign(r *http.Request) bool {
	site := r.Header.Get("Sec-Fetch-Site")
	return (site == "cross-site" || site == "same-site") && r.Header.Get("Sec-Fetch-Dest") != "document"
}

// A failure is an answer that is no page of data.
type failure struct {
	status int
	text   string
	// all is the path of a page that looks further. Optional.
	all string
}

func (f *failure) Error() string { return f.text }

// shown returns the data of the page that shows the failure.
func (f *failure) shown() any { return map[string]string{"Text": f.text, "All": f.all} }

// failureOf returns the answer for an error.
func failureOf(err error) *failure {
	if f, ok := errors.AsType[*failure](err); ok {
		return f
	}
	if problem, ok := errors.AsType[*client.Problem](err); ok && problem.Status >= 400 && problem.Status < 500 {
		return &failure{status: problem.Status, text: err.Error()}
	}
	if invalid, ok := errors.AsType[*record.InvalidError](err); ok {
		return &failure{status: http.StatusBadRequest, text: invalid.Error()}
	}
	switch {
	case errors.Is(err, admin.ErrNotFound):
		return &failure{status: http.StatusNotFound, text: err.Error()}
	case errors.Is(err, admin.ErrDropAll):
		return &failure{status: http.StatusBadRequest, text: err.Error()}
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return &failure{status: http.StatusServiceUnavailable, text: "The system did not answer in time, or is ending."}
	}
	return &failure{status: http.StatusInternalServerError, text: err.Error()}
}

// maxForm is the size of a form: a body of 256 KiB takes up to three times as much.
const maxForm = 1 << 20

// write returns the handler of a form. It refuses requests of other origins and those without the
// token of this process, and all of them if the console only reads.
func (c *console) write(do page) http.Handler {
	origins := http.NewCrossOriginProtection()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Body = http.MaxBytesReader(w, r.Body, maxForm)
		switch err := r.ParseForm(); {
		case !c.Write:
			c.fail(w, r, &failure{status: http.StatusForbidden, text: "This console only reads. Start the server with --console write"})
			return
		case origins.Check(r) != nil:
			c.fail(w, r, &failure{status: http.StatusForbidden, text: "The request comes from a page of another origin."})
			return
		case err != nil:
			c.fail(w, r, &failure{status: http.StatusBadRequest, text: "The form can't be read: " + err.Error()})
			return
		case subtle.ConstantTimeCompare([]byte(r.PostForm.Get("token")), []byte(c.token)) != 1:
			c.fail(w, r, &failure{status: http.StatusForbidden, text: "The form has not the token of this server, perhaps because the server was started again. Load the page again, and repeat."})
			return
		}
		v, err := do(r)
		if err != nil {
			c.fail(w, r, err)
			return
		}
		if _, refused := v.Data.(*form); !refused {
			c.Log.LogAttrs(r.Context(), slog.LevelInfo, "console wrote", slog.String("what", strings.TrimPrefix(r.URL.Path, Path+"/")))
		}
		c.answer(w, r, http.StatusOK, &v)
	})
}
