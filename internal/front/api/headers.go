package api

import (
	"mime"
	"net/http"
	"strconv"
	"strings"

	"github.com/effectively-once/once/clock"
	"github.com/effectively-once/once/internal/front/problem"
	"github.com/effectively-once/once/internal/queue/wire"
	"github.com/effectively-once/once/internal/record"
)

// The headers by which a sender describes a message, in canonical form.
const (
	headerGroup     = "Once-Group"
	headerSource    = "Once-Source"
	headerEpoch     = "Once-Epoch"
	headerSequence  = "Once-Sequence"
	headerDependsOn = "Once-Depends-On"
	headerParents   = "Once-Parents"
	headerTime      = "Once-Time"
	headerVia       = "Once-Via"
	headerEnd       = "Once-End" // of the last message, and the last page, of a log
	headerKey       = "Idempotency-Key"
	headerReplayed  = "Idempotent-Replayed"
)

const (
	oncePrefix = "Once-"
	// headerOwn in front of a name makes a header of the message's own, for any name.
	headerOwn = "Once-Header-"
)

// readHeaders sets the fields of m from the Once- headers and adds the headers that travel with the
// message. If a Once- header is unknown, it returns an error instead of ignoring it: a misspelt
// group would break an order in silence.
func readHeaders(h http.Header, m *record.Message) error {
	for name, values := range h {
		switch {
		case strings.HasPrefix(name, headerOwn):
			if err := readOwn(strings.TrimPrefix(name, headerOwn), values, m); err != nil {
				return err
			}
		case strings.HasPrefix(name, "Once_"): // a misspelt Once-
			return malformed(name, "has an underscore in place of a dash")
		case strings.HasPrefix(name, oncePrefix):
			if err := readOnce(name, values, m); err != nil {
				return err
			}
		case travels(name):
			if _, own := h[headerOwn+name]; !own {
				setHeader(m, name, strings.Join(values, ", "))
			}
		}
	}
	return readContent(h, m)
}

// readOwn reads Once-Header-NAME. It counts more than a header NAME beside it.
func readOwn(name string, values []string, m *record.Message) error {
	if name == "" || len(values) != 1 || strings.HasPrefix(name, oncePrefix) {
		return malformed(headerOwn+name, "has to name a header, and be there once")
	}
	setHeader(m, name, values[0])
	return nil
}

func setHeader(m *record.Message, name, value string) {
	if m.Headers == nil {
		m.Headers = make(map[string]string, 4)
	}
	m.Headers[name] = value
}

func readOnce(name string, values []string, m *record.Message) (err error) {
	if name == headerDependsOn {
		m.DependsOn, err = dependsOn(values)
		return err
	}
	if len(values) != 1 || values[0] == "" {
		return malformed(name, "has to be there once, and not be empty")
	}
	switch value := values[0]; name {
	case headerGroup:
		m.Group = value
	case headerSource:
		m.Source = value
	case headerEpoch:
		m.Epoch, err = number(name, value, 0)
	case headerSequence:
		m.Sequence, err = number(name, value, 1)
	case headerParents:
		if m.Parents, err = wire.ParseParents(value); err != nil {
			return malformed(name, "has to be a list of at most 100 numbers from 1 on, such as 17, 23")
		}
	case headerTime:
		if m.Seen, err = clock.ParseHybrid(value); err != nil {
			return malformed(name, "has to be a hybrid time such as 2026-01-31T12:00:00.000Z-0003")
		}
	case headerVia:
		if m.Via, err = wire.ParseVia(value); err != nil {
			return malformed(name, "has to be a list of at most 16 names of systems, such as eu, us")
		}
	case headerEnd:
		if m.End = value == "true"; !m.End {
			return malformed(name, "has to be true")
		}
	case headerDelay, headerNotBefore: // see readDelay
	default:
		return malformed(name, "is not a header of this contract")
	}
	return err
}

// number reads a decimal number without sign or leading zeros.
func number(name, value string, least uint64) (uint64, error) {
	n, err := strconv.ParseUint(value, 10, 64)
	if err != nil || n < least || strconv.FormatUint(n, 10) != value {
		return 0, malformed(name, "has to be a decimal number of at least "+strconv.FormatUint(least, 10))
	}
	return n, nil
}

// dependsOn reads a structured-field dictionary: source=number, source=number.
func dependsOn(values []string) (map[string]uint64, error) {
	depends, err := wire.ParseDependsOn(values)
	if err != nil || len(depends) == 0 {
		return nil, malformed(headerDependsOn, "has to be a dictionary of sources and numbers from 1 on (RFC 9651)")
	}
	return depends, nil
}

func malformed(header, rule string) error {
	return problem.New(problem.MalformedRequest, header+" "+rule+".")
}

// travels reports whether a header goes with the message to its handler and destinations: tracing
// and the senders' own headers (X-…) do; headers by which a proxy or a caller identifies itself,
// and secrets, do not.
func travels(name string) bool {
	if name == "Traceparent" || name == "Tracestate" {
		return true
	}
	rest, own := strings.CutPrefix(name, "X-")
	if !own {
		return false
	}
	for _, start := range []string{"Forwarded", "Real-", "Amz-", "Amzn-", "Envoy-", "Auth", "Api-Key", "Request-Id"} {
		if strings.HasPrefix(rest, start) {
			return false
		}
	}
	for _, secret := range []string{"Token", "Secret", "Password"} {
		if strings.HasSuffix(rest, secret) {
			return false
		}
	}
	return true
}

// readContent takes the content type as it is, if it is valid. The body is opaque, so receivers
// would not know of a content encoding: it is refused.
func readContent(h http.Header, m *record.Message) error {
	if encoding := h.Get("Content-Encoding"); encoding != "" && !strings.EqualFold(encoding, "identity") {
		return problem.New(problem.UnsupportedMediaType, "Content-Encoding is not supported: send the body as it is.")
	}
	types := h["Content-Type"]
	if len(types) == 0 || types[0] == "application/json" && len(types) == 1 {
		m.ContentType = strings.Join(types, "")
		return nil
	}
	if _, _, err := mime.ParseMediaType(types[0]); err != nil || len(types) > 1 {
		return problem.New(problem.UnsupportedMediaType, "Content-Type is not a media type.")
	}
	m.ContentType = types[0]
	return nil
}
