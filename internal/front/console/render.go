package console

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"html/template"
	"io/fs"
	"net/http"
	"net/url"
	"path"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/effectively-once/once/internal/admin"
	"github.com/effectively-once/once/internal/admin/plain"
)

// A view is one page.
type view struct {
	// Template is the name of its file, without .html.
	Template string
	Title    string
	// Commands print the same, or do the same.
	Commands []string
	// Live pages renew themselves.
	Live bool
	// Data is for the template.
	Data any

	// The other fields are set by answer.
	Path, Token string
	Write       bool
	Remote      string // the name of the system elsewhere, if it is one
}

// parse returns a template for each page, with the layout.
func parse() (map[string]*template.Template, error) {
	names, err := fs.Glob(sources, "templates/*.html")
	if err != nil {
		return nil, err
	}
	out := map[string]*template.Template{}
	for _, name := range names {
		t, err := template.New("layout.html").Funcs(functions()).ParseFS(sources, "templates/layout.html", "templates/parts.html", name)
		if err != nil {
			return nil, err
		}
		out[strings.TrimSuffix(path.Base(name), ".html")] = t
	}
	return out, nil
}

// functions returns the functions of the templates. Names, errors and bodies of others are shown by
// one of name, error and lines, which make control characters visible.
func functions() template.FuncMap {
	return template.FuncMap{
		"name":  plain.Safe,
		"error": shortened,
		"lines": plain.SafeLines,
		"stamp": stamp,
		"wait":  func(w admin.Wait) string { return shortened(plain.Wait(&w)) },
		"link":  link,
		"kind":  kindOf,
		"dash": func(text string) string {
			if text == "" {
				return "–"
			}
			return text
		},
		"part": func(v *view, data any) map[string]any { return map[string]any{"View": v, "Data": data} },
	}
}

// kindOf returns the tag of a wait.
func kindOf(kind admin.WaitKind) string {
	switch kind {
	case admin.WaitRetry:
		return "message fails"
	case admin.WaitDestination:
		return "destination fails"
	case admin.WaitParent:
		return "answers what is missing"
	case admin.WaitQueue:
		return "in a queue"
	case admin.WaitTime:
		return "not due"
	case admin.WaitNumber:
	}
	return "number missing"
}

// maxError is how many bytes of an error are shown.
const maxError = 2000

// shortened returns the text of an error or of a body for one line. Answers of web servers often
// end with a line feed, which is left out.
func shortened(text string) string { return plain.Safe(cut(strings.TrimRight(text, "\r\n"), maxError)) }

func cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	for most > 0 && !utf8.RuneStart(text[most]) {
		most--
	}
	return text[:most] + "…"
}

func stamp(t any) string {
	switch t := t.(type) {
	case *time.Time:
		return plain.Stamp(t)
	case time.Time:
		return plain.Stamp(&t)
	}
	return ""
}

// link returns the path of a page with pairs of parameters. Empty ones are left out.
func link(page string, pairs ...string) string {
	values := url.Values{}
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			values.Set(pairs[i], pairs[i+1])
		}
	}
	if len(values) == 0 {
		return Path + page
	}
	return Path + page + "?" + values.Encode()
}

// body returns a body as text of several lines.
func body(b *admin.Body) string {
	var out bytes.Buffer
	switch {
	case len(b.JSON) > 0 && json.Indent(&out, b.JSON, "", "  ") == nil:
		return out.String()
	case len(b.Base64) > 0:
		return "base64 " + base64.StdEncoding.EncodeToString(b.Base64)
	}
	return b.Text
}

// show returns the handler of a page. A browser that asks for events gets the content of a live
// page whenever it changes.
func (c *console) show(p page, live bool) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Vary", "Accept")
		if wantsEvents(r) {
			if !live {
				http.Error(w, "this page does not renew itself", http.StatusNotAcceptable)
				return
			}
			c.follow(w, r, p)
			return
		}
		v, err := p(r)
		if err != nil {
			c.fail(w, r, err)
			return
		}
		v.Live = v.Live && live
		c.answer(w, r, http.StatusOK, &v)
	})
}

// wantsEvents reports whether a request asks for the renewals of a page.
func wantsEvents(r *http.Request) bool {
	return r.Method == http.MethodGet && strings.Contains(r.Header.Get("Accept"), "text/event-stream")
}

// fail answers with an error.
func (c *console) fail(w http.ResponseWriter, r *http.Request, err error) {
	f := failureOf(err)
	c.answer(w, r, f.status, &view{Template: "failure", Title: http.StatusText(f.status), Data: f.shown()})
}

func (c *console) answer(w http.ResponseWriter, r *http.Request, status int, v *view) {
	text, err := c.render(r, v, "layout.html")
	if err != nil { // a mistake in a template
		c.Log.Error("console page not rendered", "page", v.Template, "error", err)
		http.Error(w, "the page could not be rendered; the log says why", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(text)) // if it fails, the reader is gone
}

// render returns a page, or with the name content its renewed part. No control character of
// others gets to the reader: they are made visible in the whole text once more.
func (c *console) render(r *http.Request, v *view, name string) (string, error) {
	v.Path, v.Token, v.Write = strings.TrimPrefix(r.URL.Path, Path), c.token, c.Write
	if c.Remote != nil {
		v.Remote = c.Remote.Name
	}
	var out bytes.Buffer
	if err := c.templates[v.Template].ExecuteTemplate(&out, name, v); err != nil {
		return "", err
	}
	return plain.SafeLines(out.String()), nil
}
