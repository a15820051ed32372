package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/effectively-once/once/internal/config"
	"github.com/effectively-once/once/internal/front/access"
)

// A checkedCaller is a caller with a key, and the streams for which it has each role.
type checkedCaller struct {
	Name  string              `json:"name"`
	Roles map[string][]string `json:"roles"`
}

// callersOf returns the callers with keys, as far as the list of keys can be read, and warnings
// about their roles.
func callersOf(c *config.Config) (out []checkedCaller, warnings []string) {
	if c.Server == nil || c.Server.Auth == nil {
		return nil, nil
	}
	auth, streams, known := c.Server.Auth, c.StreamNames(), map[string]bool{}
	if _, err := auth.Keys.ResolveLines(); err == nil { // otherwise there is a warning already
		list, err := access.Callers(c.Server, streams)
		if err != nil {
			warnings = append(warnings, err.Error()+": once serve does not start with it")
		}
		for _, x := range list {
			known[x.Name()] = true
			roles := map[string][]string{}
			for i, role := range config.RoleNames() {
				if of := x.StreamsOf(1<<i, streams); len(of) > 0 {
					roles[role] = of
				}
			}
			out = append(out, checkedCaller{x.Name(), roles})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(auth.Roles)) {
		if len(out) > 0 && !known[name] {
			warnings = append(warnings, fmt.Sprintf("server.auth.roles: no line of server.auth.keys has the principal %s", name))
		}
		for _, text := range auth.Roles[name] {
			if g, _ := config.ParseGrant(text); !slices.ContainsFunc(streams, func(stream string) bool { return g.Allows(g.Role, stream) }) {
				warnings = append(warnings, fmt.Sprintf("server.auth.roles: %s of %s is for no stream", text, name))
			}
		}
	}
	return out, warnings
}

// callers prints who may do what.
func (a *app) callers(c configured, list []checkedCaller) error {
	rows := [][]string{{"", ""}, {"CALLER", "SEND", "READ", "CONSUME", "OPERATE"}}
	for _, x := range list {
		row := []string{x.Name}
		for _, role := range config.RoleNames() {
			streams := strings.Join(x.Roles[role], ", ")
			if len(x.Roles[role]) == len(c.Streams) {
				streams = "all"
			}
			row = append(row, dash(streams))
		}
		rows = append(rows, row)
	}
	if len(list) > 0 {
		if err := table(a.out, rows); err != nil {
			return err
		}
	}
	if c.Server == nil || c.Server.Auth == nil || c.Server.Auth.OIDC == nil {
		return nil
	}
	roles, streams := "may send", "all streams"
	if claim := c.Server.Auth.OIDC.Roles; claim != "" {
		roles = "have the roles of their claim " + claim
	}
	if claim := c.Server.Auth.OIDC.Streams; claim != "" {
		streams = "the streams of their claim " + claim
	}
	_, _ = fmt.Fprintf(a.out, "\ntokens of %s %s, for %s\n", c.Server.Auth.OIDC.Issuer, roles, streams)
	return nil
}
