package roles

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"unicode"

	"github.com/effectively-once/once/internal/config"
	"github.com/effectively-once/once/internal/front/problem"
)

// A Caller is the sender of a request, with its roles.
type Caller struct {
	// Principal scopes identities: the same key of two principals names two messages.
	Principal string
	// All allows every stream; otherwise only Streams are allowed.
	All     bool
	Streams []string
	// Grants are the roles for these streams.
	Grants []config.Grant
}

// may reports whether the caller has one of the roles for a stream, or, if that is empty, for all.
func (c Caller) may(roles config.Roles, stream string) bool {
	if !c.All && (stream == "" || !slices.Contains(c.Streams, stream)) {
		return false
	}
	return slices.ContainsFunc(c.Grants, func(g config.Grant) bool { return g.Allows(roles, stream) })
}

// Everybody returns the caller if nothing authenticates callers: nobody, who may do everything.
func Everybody() Caller {
	return Caller{All: true, Grants: []config.Grant{{Role: config.AllRoles}}}
}

type callerKey struct{}

// A known caller is in the context of a request.
type known struct {
	Caller
	denied func() // counts the request as refused
}

// With adds its caller to a request. The function is called if [Allow] refuses the request.
func With(r *http.Request, c Caller, denied func()) *http.Request {
	return r.WithContext(context.WithValue(r.Context(), callerKey{}, known{c, denied}))
}

// Principal returns the principal of a request, or "" if callers are not authenticated. The kinds
// have prefixes, so that one can't pass for another:
//
//	key:NAME          the principal of a key
//	jwt:ISSUER#VALUE  the claim of a token
func Principal(r *http.Request) (string, error) {
	c, _ := r.Context().Value(callerKey{}).(known)
	return c.Principal, nil
}

// Allowed returns those of the streams for which the caller of a request has a role.
func Allowed(r *http.Request, streams []string) []string {
	c, ok := r.Context().Value(callerKey{}).(known)
	if !ok {
		c.Caller = Everybody()
	}
	return c.StreamsOf(config.AllRoles, streams)
}

// Allow returns a problem if the caller of a request has none of the roles for a route and a
// stream. Route is the method and the pattern of the path, or the name of a header that ends a log.
// The answer is the same for a stream that does not exist. An empty stream stands for all.
func Allow(r *http.Request, route, stream string) error {
	if May(r, route, stream) {
		return nil
	}
	if c, ok := r.Context().Value(callerKey{}).(known); ok {
		c.denied()
	}
	roles, ok := allowedTo(get(route))
	switch {
	case !ok:
		return problem.New(problem.Forbidden, "No role allows this.")
	case stream == "":
		return problem.New(problem.Forbidden, fmt.Sprintf("This key or token does not have the role %v for all streams.", roles))
	}
	return problem.New(problem.Forbidden, fmt.Sprintf("This key or token does not have the role %v for the stream %.100q.", roles, stream))
}

// May is Allow without a problem: it counts nothing as refused.
func May(r *http.Request, route, stream string) bool {
	c, ok := r.Context().Value(callerKey{}).(known)
	if !ok { // nothing authenticates callers, or it is an operator
		return true
	}
	roles, ok := allowedTo(get(route))
	return ok && (roles == anyCaller || c.may(roles, stream))
}

// get returns the route of GET for one of HEAD, which gives the same information.
func get(route string) string {
	if rest, is := strings.CutPrefix(route, http.MethodHead+" "); is {
		return http.MethodGet + " " + rest
	}
	return route
}

// StreamsOf returns those of the streams for which the caller has a role.
func (c Caller) StreamsOf(role config.Roles, streams []string) []string {
	return slices.DeleteFunc(slices.Clone(streams), func(name string) bool { return !c.may(role, name) })
}

// ByClaims returns the caller with a token. Both claims, of streams and of roles, are a list of texts
// or one text, with spaces between its words.
func ByClaims(o *config.OIDC, principal string, claims map[string]any) Caller {
	c := Caller{Principal: principal, All: o.Streams == "", Grants: []config.Grant{{Role: config.RoleSend}}}
	if !c.All {
		c.Streams = words(claims[o.Streams])
	}
	if o.Roles != "" {
		c.Grants = config.Grants(words(claims[o.Roles]))
	}
	return c
}

// words returns the words of a claim. API Gateway makes one text of a list, with brackets, spaces or
// commas, which no role and no stream has.
func words(claim any) []string {
	switch v := claim.(type) {
	case string:
		return strings.FieldsFunc(v, func(r rune) bool { return unicode.IsSpace(r) || strings.ContainsRune("[],", r) })
	case []any:
		var out []string
		for _, item := range v {
			if text, _ := item.(string); text != "" {
				out = append(out, text)
			}
		}
		return out
	}
	return nil
}
