package console

import (
	"net/http"
	"strings"

	"github.com/effectively-once/once/internal/admin/plain"
)

// The places that commands speak to by default.
const (
	localURL  = "http://127.0.0.1:8080"
	localData = ".once"
)

// line returns a command as a shell reads it. Characters that a shell could not show are escaped.
func line(args ...string) string {
	words := []string{"once"}
	for _, arg := range args {
		words = append(words, plain.Quote(plain.Safe(arg)))
	}
	return strings.Join(words, " ")
}

// onFolder returns a command that speaks to the data folder, or to the system elsewhere.
func (c *console) onFolder(args ...string) string {
	if c.Remote != nil {
		return line(append(args, c.Remote.Flags...)...)
	}
	if c.DataDir != localData {
		args = append(args, "--data", c.DataDir)
	}
	return line(args...)
}

// onServer returns a command that speaks to the server of a request, or to the system elsewhere.
func (c *console) onServer(r *http.Request, args ...string) string {
	if c.Remote != nil {
		return line(append(args, c.Remote.Flags...)...)
	}
	if at := "http://" + r.Host; at != localURL {
		args = append(args, "--url", at)
	}
	return line(args...)
}
