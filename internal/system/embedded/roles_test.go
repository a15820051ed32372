package embedded_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/effectively-once/once/internal/system/embedded"
)

// The roles, with a key for each.
const (
	sends, reads, consumes, operates = "send", "read", "consume", "operate"
	everyRole                        = "send read consume operate"
)

func keyOf(role string) string { return "X-Api-Key: " + role + "-0123456789abcdef" }

// rolesShop gives each role to a caller of its name, for the stream in whose name is "mine".
const rolesShop = `
streams:
  mine: {log: {}}
  mine-too: {pool: {}}
  other: {log: {}}
  other-pool: {pool: {}}
server:
  auth:
    keys: "file:DIR/keys"
    roles: {send: ["send:mine*"], read: ["read:mine*"], consume: ["consume:*mine*"], operate: ["operate:mine", "operate:*-too"], none: [], all: [send, read, consume, operate]}
  admin: {key: "file:DIR/admin"}
  console: write
`

func serveRoles(t *testing.T) *served {
	t.Helper()
	return serve(t, rolesShop, func(_ *embedded.Options, s *served) {
		var keys strings.Builder
		for _, role := range []string{sends, reads, consumes, operates, "none", "all", "unnamed"} {
			_, _ = fmt.Fprintf(&keys, "%s %s-0123456789abcdef\n", role, role)
		}
		s.file("keys", keys.String())
	})
}

// rolesOfRoutes is the table of docs/security.md: who may use which route. "session" stands for the
// path of a session of a pool or of a log.
func rolesOfRoutes() map[string]string {
	return map[string]string{
		"POST /v1/streams/{stream}/messages":          sends,
		"POST /v1/streams/{stream}/batch":             sends,
		"GET /v1/streams/{stream}/messages/{id}":      sends,
		"PUT /v1/streams/{stream}/requests/{id}":      sends,
		"POST /v1/streams/{stream}/requests/{id}":     sends,
		"GET /v1/streams/{stream}/requests/{id}":      sends,
		"DELETE /v1/streams/{stream}/requests/{id}":   sends,
		"POST /v1/streams/{stream}/epochs/{id}":       sends,
		"GET /v1/streams/{stream}/groups":             reads,
		"GET /v1/streams/{stream}/groups/{group}/log": reads,
		"GET sessions":                                  "read consume operate",
		"GET session":                                   "read consume operate",
		"POST session":                                  consumes,
		"GET session/entries":                           consumes,
		"POST session/commit":                           consumes,
		"POST session/fail":                             consumes,
		"POST session/release":                          consumes,
		"POST session/renew":                            consumes,
		"POST session/retire":                           "consume operate",
		"POST /v1/streams/{stream}/end":                 operates,
		"GET /v1/stream/{stream}/{group}":               reads,
		"HEAD /v1/stream/{stream}/{group}":              reads,
		"PUT /v1/stream/{stream}/{group}":               sends,
		"POST /v1/stream/{stream}/{group}":              sends,
		"DELETE /v1/stream/{stream}/{group}":            operates,
		"OPTIONS /v1/stream/{stream}/{group}":           everyRole + " none unnamed",
		"PATCH /v1/stream/{stream}/{group}":             "",
		"GET /v1/streams/{stream}/groups/{group}/x/log": reads, // a group with a slash
	}
}

// short returns the name of a route in the table.
func short(route string) string {
	for _, of := range []string{"/v1/streams/{stream}/groups/{group}/sessions", "/v1/streams/{stream}/sessions"} {
		route = strings.ReplaceAll(route, of+"/{name}", "session")
		route = strings.ReplaceAll(route, of, "sessions")
	}
	return route
}

// TestEveryRouteAsksForItsRole walks the routes of the document that the server has, and those of
// Durable Streams.
func TestEveryRouteAsksForItsRole(t *testing.T) {
	t.Parallel()
	s := serveRoles(t)
	table, used := rolesOfRoutes(), map[string]bool{}
	routes := s.documented(keyOf("none"))
	for route := range table {
		if strings.Contains(route, "/v1/stream/") || strings.Contains(route, "/x/") {
			routes = append(routes, route)
		}
	}
	for _, route := range routes {
		want, known := table[short(route)]
		used[short(route)] = true
		if !known {
			t.Errorf("%s is not in the table", route)
		}
		method, path, _ := strings.Cut(route, " ")
		methods := []string{method}
		if method == http.MethodGet {
			methods = append(methods, http.MethodHead)
		}
		for _, method := range methods {
			for _, stream := range []string{"mine", "mine-too", "other", "other-pool", "nothing"} {
				filled := strings.NewReplacer("{stream}", stream, "{group}", "g", "{name}", "n", "{id}", "i", "{source}", "s").Replace(path)
				for _, role := range []string{sends, reads, consumes, operates, "none", "unnamed"} {
					may := slices.Contains(strings.Fields(want), role) && strings.HasPrefix(stream, "mine") || role == "unnamed" && want == sends || method == http.MethodOptions
					got := s.call(method, filled, "{}", keyOf(role))
					if (got.status != http.StatusForbidden) != may {
						t.Errorf("%s %s of %s: got %d %s, want that it may: %t", method, filled, role, got.status, got.body, may)
					}
					if !may && want != "" && method != http.MethodHead {
						says := fmt.Sprintf(`"detail":"This key or token does not have the role %s for the stream \"%s\"."`, roleText(want), stream)
						s.want(method+" "+filled+" of "+role, got, 403, says)
					}
				}
			}
		}
	}
	for route := range table {
		if !used[route] {
			t.Errorf("%s of the table is no route", route)
		}
	}
	for _, path := range []string{"/console", "/console/send", "/admin/v1/stats"} {
		for _, role := range []string{sends, reads, consumes, operates, "all"} {
			if got := s.call("GET", path, "", keyOf(role)); got.status != 401 && got.status != 404 {
				t.Errorf("%s of %s: got %d, want 401 or 404: it asks for the key of operators", path, role, got.status)
			}
		}
	}
}

func roleText(roles string) string {
	list := strings.Fields(roles)
	if last := len(list) - 1; last > 0 {
		return strings.Join(list[:last], ", ") + " or " + list[last]
	}
	return roles
}

// TestOnlyAnOperatorEndsALog ends logs by each header and field that does.
func TestOnlyAnOperatorEndsALog(t *testing.T) {
	t.Parallel()
	s := serveRoles(t)
	const missing = `role operate for the stream \"mine\"`
	post := func(key string, headers ...string) reply {
		return s.call("POST", "/v1/streams/mine/messages", "1", append(headers, key, "Idempotency-Key: end", "Once-Group: g", "Prefer: wait=10")...)
	}
	s.want("a message that ends a log", post(keyOf(sends), "Once-End: true"), 403, missing)
	records := `{"key":"a","group":"g"}` + "\n" + `{"key":"b","group":"g","end":true}` + "\n" + `{"key":"c","group":"g"}` + "\n"
	batch := s.call("POST", "/v1/streams/mine/batch", records, keyOf(sends), "Content-Type: application/x-ndjson")
	s.want("a batch with such a record", batch, 200, `"id":"a"`, missing, `"id":"c"`)
	durable := "/v1/stream/mine/live"
	for _, header := range []string{"Stream-Closed: true", "Stream-TTL: 1", "Stream-Expires-At: 2030-01-01T00:00:00Z"} {
		s.want("the creation of a stream with "+header, s.call("PUT", durable, "", keyOf(sends), header), 403, missing)
	}
	s.want("the creation of a stream", s.call("PUT", durable, "", keyOf(sends), "Content-Type: text/plain"), 201)
	s.want("an append that ends a stream", s.call("POST", durable, "x", keyOf(sends), "Content-Type: text/plain", "Stream-Closed: true"), 403, missing)
	s.want("an append", s.call("POST", durable, "x", keyOf(sends), "Content-Type: text/plain"), 204)
	for name, got := range map[string]reply{
		"the message with both roles": post(keyOf("all"), "Once-End: true"),
		"the append with both roles":  s.call("POST", durable, "y", keyOf("all"), "Content-Type: text/plain", "Stream-Closed: true"),
	} {
		if got.status/100 != 2 {
			t.Errorf("%s: got %d %s, want that it is taken", name, got.status, got.body)
		}
	}
	s.want("the deletion with a key that sends", s.call("DELETE", durable, "", keyOf(sends)), 403, missing)
	s.want("the deletion with a key that operates", s.call("DELETE", durable, "", keyOf(operates)), 204)
}

// TestAWriteTellsNothingThatTheCallerMayNotRead compares the answers to writers that may read a
// stream with those to writers that may not.
func TestAWriteTellsNothingThatTheCallerMayNotRead(t *testing.T) {
	t.Parallel()
	s := serveRoles(t)
	durable := "/v1/stream/mine/live"
	producer := []string{"Content-Type: text/plain", "Producer-Id: p", "Producer-Epoch: 0", "Producer-Seq: 0"}
	s.want("the creation", s.call("PUT", durable, "", keyOf(sends), "Content-Type: text/plain"), 201)
	first := s.call("POST", durable, "secret", append(producer, keyOf(sends))...)
	s.want("the first append", first, 200)
	if first.header.Get("Stream-Next-Offset") == "" {
		t.Errorf("the answer to an append is %v, want its own offset", first.header)
	}
	s.want("an append of another", s.call("POST", durable, "more", keyOf("all"), "Content-Type: text/plain", "Stream-Closed: true"), 204)
	for _, c := range []struct {
		what, method, body string
		headers            []string
		status             int
		closed             string
	}{
		{"a repetition of the append", "POST", "secret", producer, 204, ""},
		{"an append to a stream that is closed", "POST", "x", []string{"Content-Type: text/plain"}, 409, "true"},
		{"the creation, again", "PUT", "", []string{"Content-Type: text/plain"}, 409, ""},
		{"a read", "GET", "", nil, 403, ""},
		{"a look", "HEAD", "", nil, 403, ""},
	} {
		got := s.call(c.method, durable, c.body, append(c.headers, keyOf(sends))...)
		s.want(c.what, got, c.status)
		if got.header.Get("Stream-Next-Offset") != "" || got.header.Get("Stream-Closed") != c.closed || strings.Contains(got.body, "secret") || strings.Contains(got.body, "more") {
			t.Errorf("%s tells %v %s, want nothing about the end but a refusal's reason", c.what, got.header, got.body)
		}
	}
	again := s.call("POST", durable, "secret", append(producer, keyOf("all"))...) // another producer, as it is another principal
	if again.header.Get("Stream-Closed") != "true" || again.header.Get("Stream-Next-Offset") == "" {
		t.Errorf("a writer that may read is told %v, want the end", again.header)
	}
	s.want("a read of an operator", s.call("GET", durable, "", keyOf(operates)), 403)
	s.want("a look of an operator", s.call("HEAD", durable, "", keyOf(operates)), 403)
	s.want("a read of a reader", s.call("GET", durable, "", keyOf(reads)), 200, "secretmore")
}

// TestASenderReadsTheStatusAndTheReplyOfItsOwnMessages has a caller wait, and look it up.
func TestASenderReadsTheStatusAndTheReplyOfItsOwnMessages(t *testing.T) {
	t.Parallel()
	s := serveRoles(t)
	s.want("a caller that waits", s.call("POST", "/v1/streams/mine/messages", "1", keyOf(sends), "Idempotency-Key: k", "Prefer: wait=10"), 200, `"done"`)
	s.want("its look", s.call("GET", "/v1/streams/mine/messages/k", "", keyOf(sends)), 200, `"done"`)
	s.want("the look of another sender", s.call("GET", "/v1/streams/mine/messages/k", "", keyOf("all")), 404)
}
