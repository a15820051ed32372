package envelope

import (
	"bytes"
	"cmp"
	"encoding/json"
	"slices"
	"strings"

	"github.com/effectively-once/once/internal/queue"
	"github.com/effectively-once/once/internal/queue/wire"
)

const contentType = "Content-Type"

// meta holds the fields of the once-meta attribute that any sender may set.
type meta struct {
	ContentType string            `json:"content_type,omitempty"`
	Headers     map[string]string `json:"headers,omitempty"`
	Encoding    string            `json:"encoding,omitempty"`
	ID          string            `json:"id,omitempty"`
	Group       string            `json:"group,omitempty"`
}

func (x *meta) needed() bool {
	return x.ContentType+x.Encoding+x.ID+x.Group != "" || len(x.Headers) > 0
}

// encode returns JSON that SQS accepts: U+FFFE and U+FFFF are not allowed in XML, so they are
// escaped.
func (x *meta) encode() string {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(x) // a struct of strings
	text := strings.ReplaceAll(strings.TrimRight(b.String(), "\n"), "\uFFFE", `\ufffe`)
	return strings.ReplaceAll(text, "\uFFFF", `\uffff`)
}

// headers adds as many headers as fit to attributes, and returns the others.
func headers(all, attributes map[string]string, needed bool) map[string]string {
	rest := map[string]string{}
	var fit []string
	for name, value := range all {
		switch {
		case wire.Reserved(name):
		case value != "" && queue.ValidAttributeName(name) && queue.ValidText(value) && !strings.EqualFold(name, contentType):
			fit = append(fit, name)
		default:
			rest[name] = value
		}
	}
	slices.SortFunc(fit, func(a, b string) int { return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a, b)) })
	room := queue.MaxAttributes - len(attributes)
	if needed || len(rest) > 0 || len(fit) > room {
		room-- // for once-meta
	}
	for i, name := range fit {
		if i < room {
			attributes[name] = all[name]
		} else {
			rest[name] = all[name]
		}
	}
	return rest
}

// rank sorts the headers of a trace first, so that it can be followed across queues.
func rank(name string) int {
	if strings.EqualFold(name, "traceparent") || strings.EqualFold(name, "tracestate") {
		return 0
	}
	return 1
}
