package config

import (
	"path"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"github.com/effectively-once/once/internal/record"
)

// MaxCaller is the largest length of the principal of a key in bytes.
const MaxCaller = 100

const maxPrincipal = 200 // in bytes: one of API Gateway is longer than that of a key

// Roles is a set of roles of a caller for a stream.
type Roles uint8

// The roles.
const (
	RoleSend    Roles = 1 << iota // send, and read the status and the reply of its own messages
	RoleRead                      // read logs, groups and sessions
	RoleConsume                   // open sessions, and read and commit their entries
	RoleOperate                   // end logs and streams, delete Durable Streams, retire sessions
	AllRoles    = RoleSend | RoleRead | RoleConsume | RoleOperate
)

// RoleNames returns the names of the roles, in the order of their bits.
func RoleNames() []string { return []string{"send", "read", "consume", "operate"} }

// String returns the names of the roles: "read, consume or operate".
func (r Roles) String() string {
	var names []string
	for i, name := range RoleNames() {
		if r&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	if last := len(names) - 1; last > 0 {
		return strings.Join(names[:last], ", ") + " or " + names[last]
	}
	return strings.Join(names, "")
}

// A Grant gives one role for streams.
type Grant struct {
	Role Roles
	// Streams is the name of a stream, in which a * stands for any characters. Empty: all streams.
	Streams string
}

// ParseGrant reads ROLE or ROLE:STREAMS.
func ParseGrant(text string) (g Grant, ok bool) {
	role, streams, some := strings.Cut(text, ":")
	i := slices.Index(RoleNames(), role)
	if i < 0 || some && !pattern(streams) {
		return Grant{}, false
	}
	if streams == "*" {
		streams = ""
	}
	return Grant{1 << i, streams}, true
}

// pattern reports whether a text is the name of a stream, in which a * may stand for any
// characters.
func pattern(text string) bool {
	return text == "*" || record.ValidStream(strings.ReplaceAll(text, "*", "x")) == nil
}

// Allows reports whether the grant has one of the roles for a stream. "" stands for all streams.
func (g Grant) Allows(roles Roles, stream string) bool {
	if g.Role&roles == 0 {
		return false
	}
	matches, err := path.Match(g.Streams, stream)
	return g.Streams == "" || matches && err == nil && stream != ""
}

// GrantsOf returns what a caller may do by its entry, and without one: send to all streams. The
// entry has no mistakes.
func (a *Auth) GrantsOf(name string) []Grant {
	list, named := a.Roles[name]
	if !named {
		return []Grant{{Role: RoleSend}}
	}
	return Grants(list)
}

// Grants returns those of the texts that are grants.
func Grants(texts []string) []Grant {
	var out []Grant
	for _, text := range texts {
		if g, ok := ParseGrant(text); ok {
			out = append(out, g)
		}
	}
	return out
}

// HasRoles reports whether the configuration gives roles to keys or to tokens.
func (s *Server) HasRoles() bool {
	return s != nil && s.Auth != nil && (s.Auth.Roles != nil || s.Auth.OIDC != nil && s.Auth.OIDC.Roles != "")
}

// RolesWarnings returns a warning for each kind of callers, keys and tokens, that may only send
// because nothing gives roles to it. An empty map of roles says that this is meant, for both.
func (s *Server) RolesWarnings() (out []string) {
	const only = "; in earlier versions it could also read logs, take sessions and end streams. Give it the roles that it needs, or write auth.roles: {} if no caller does more than send"
	if s.Auth == nil || s.Auth.Roles != nil && len(s.Auth.Roles) == 0 {
		return nil
	}
	if s.Auth.Keys != "" && s.Auth.Roles == nil {
		out = append(out, "server.auth.roles: is missing, so every key may only send"+only)
	}
	if s.Auth.OIDC != nil && s.Auth.OIDC.Roles == "" {
		out = append(out, "server.auth.oidc.roles: is missing, so every token may only send"+only)
	}
	return out
}

func (p *reader) roles(n node) map[string][]string {
	out := map[string][]string{}
	for _, f := range p.fields(n) {
		if f.key == "" || len(f.key) > maxPrincipal || strings.ContainsFunc(f.key, func(r rune) bool { return r <= ' ' || r > '~' }) {
			p.add(f.at, f.path, "is not a caller: a principal is at most %d visible ASCII characters", maxPrincipal)
		}
		out[f.key] = []string{} // an empty list is not a missing one
		for _, item := range p.items(f.node) {
			switch item.value.(type) {
			case *ast.MappingNode, *ast.MappingValueNode:
				p.add(item.line, item.path, `needs quotes, as "read:orders"`)
				continue
			}
			text := p.text(item, true)
			if _, ok := ParseGrant(text); !ok && text != "" {
				p.add(item.line, item.path, "must be send, read, consume or operate, or one of them for some streams, as read:orders or read:shop-*")
			}
			out[f.key] = append(out[f.key], text)
		}
	}
	return out
}
