package config

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"net/url"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// Server has the settings of the listener of "once serve" and of programs that embed a system.
// "once dev" ignores them, and so do the functions on AWS, but for the roles of callers.
type Server struct {
	// Listen is the address of the HTTP listener. Defaults to [DefaultListen].
	Listen string `json:"listen,omitempty" jsonschema:"minLength=1,default=127.0.0.1:8080,description=Address to serve on: HOST:PORT or :PORT. --listen replaces it."`
	// TLS is nil for plain HTTP.
	TLS *TLS `json:"tls,omitempty" jsonschema:"description=Certificate and key to serve HTTPS with. Without it the server speaks plain HTTP."`
	// Hosts are the host names under which clients or a proxy reach the server, besides addresses,
	// localhost and the host of Listen.
	Hosts []string `json:"hosts,omitempty" jsonschema:"uniqueItems=true,description=Host names under which clients or a proxy reach the server. Requests to other names are refused with 403. Addresses and localhost and the host of listen are always allowed."`
	// Auth is nil if callers are not authenticated.
	Auth *Auth `json:"auth,omitempty" jsonschema:"description=Who may call: keys or tokens of an OpenID Connect issuer or both. Without it everybody who reaches the server may."`
	// Rate limits the requests of one principal. If it is nil, there is no limit.
	Rate *Rate `json:"rate,omitempty" jsonschema:"description=Limit on the requests of one principal; those over it get 429. Without auth: of one address. Default: none."`
	// CORS lets web pages of other origins call the HTTP API.
	CORS *CORS `json:"cors,omitempty" jsonschema:"description=Web pages of other origins that may call the HTTP API. Default: none."`
	// Console is off, read or write. Defaults to off, and on a loopback address to read.
	Console string `json:"console,omitempty" jsonschema:"enum=off,enum=read,enum=write,description=Console at /console. With auth it needs admin.key. Default: read on a loopback address if nothing authenticates callers or admin.key is there; else off."`
	// Connections is the largest number of open connections. Defaults to [DefaultConnections].
	Connections int `json:"connections,omitempty" jsonschema:"minimum=1,maximum=1000000,default=16384,description=How many connections may be open at a time. One more replaces the connection that has been idle longest."`
	// Admin has the admin API.
	Admin *Admin `json:"admin,omitempty" jsonschema:"description=Admin API for operators on an address of its own and the key that it and the console ask for."`
}

// Defaults of [Server].
const (
	DefaultListen      = "127.0.0.1:8080"
	DefaultConnections = 16384
)

// TLS names the files of a certificate. A server reads them again when they change.
type TLS struct {
	Cert string `json:"cert" jsonschema:"minLength=1,description=Path of the certificate and its chain in PEM. It is read again when it changes."`
	Key  string `json:"key" jsonschema:"minLength=1,description=Path of the private key in PEM."`
}

// Auth says who may call, and what for. At least one field is set.
type Auth struct {
	// Keys is the location of a list of keys.
	Keys Secret `json:"keys,omitempty" jsonschema:"description=Where the list of keys is: env:NAME or file:PATH. A line has a principal and a key and optionally the streams that it may use; roles says what for."`
	// OIDC accepts the tokens of an issuer.
	OIDC *OIDC `json:"oidc,omitempty" jsonschema:"description=Bearer tokens of an OpenID Connect issuer."`
	// Roles are what callers may do, by the principals of their keys, and on AWS by the principals of
	// the API: see [ParseGrant]. A principal without an entry may only send.
	Roles map[string][]string `json:"roles,omitzero" jsonschema:"description=Roles by the principals of callers: send and read and consume and operate. ROLE:STREAMS is one for some streams; a * in STREAMS stands for any characters. A principal without an entry may only send."`
}

// OIDC accepts the tokens of an OpenID Connect issuer.
type OIDC struct {
	Issuer   string `json:"issuer" jsonschema:"pattern=^https?://,description=URL of the issuer; its metadata is at /.well-known/openid-configuration below it. http only on a loopback address."`
	Audience string `json:"audience" jsonschema:"minLength=1,description=Audience that a token must name."`
	// Principal is the claim that names the sender. Defaults to "sub".
	Principal string `json:"principal,omitempty" jsonschema:"minLength=1,default=sub,description=Claim that names the sender."`
	// Streams is the claim with the streams that the sender may use. Empty: all streams.
	Streams string `json:"streams,omitempty" jsonschema:"minLength=1,description=Claim with the streams that the sender may use: a list or a text with spaces between them. A token without the claim may use none. Default: every token may use all streams."`
	// Roles is the claim with the roles of the sender: see [ParseGrant]. Empty: send.
	Roles string `json:"roles,omitempty" jsonschema:"minLength=1,description=Claim with the roles of the sender: a list or a text with spaces between them; each is ROLE or ROLE:STREAMS and others are ignored. A token without the claim may do nothing. Default: every token may only send."`
}

// Rate is a token bucket.
type Rate struct {
	PerSecond int `json:"perSecond" jsonschema:"minimum=1,maximum=1000000000,description=Requests a second in the long run."`
	// Burst defaults to PerSecond.
	Burst int `json:"burst,omitempty" jsonschema:"minimum=1,maximum=1000000000,description=Requests that may come at one moment. Default: perSecond."`
}

// CORS lists origins of web pages.
type CORS struct {
	Origins []string `json:"origins" jsonschema:"minItems=1,uniqueItems=true,description=Origins of the pages: https://HOST or https://HOST:PORT."`
}

// Admin has the settings of the admin API.
type Admin struct {
	// Listen is the address of the admin API. Empty: there is none, and Key protects the console.
	Listen string `json:"listen,omitempty" jsonschema:"minLength=1,description=Address of the admin API: HOST:PORT. Default: no admin API."`
	// Key is the location of the key that operators need.
	Key Secret `json:"key" jsonschema:"description=Where the key of operators is: env:NAME or file:PATH. The admin API takes it as a bearer token; the console as a password."`
}

// MinKey is the smallest length of a key in bytes.
const MinKey = 20

func (p *reader) server(n node) *Server {
	f := p.only(n, "listen", "tls", "hosts", "auth", "rate", "cors", "console", "connections", "admin")
	p.note(f)
	s := &Server{Listen: p.address(f, "listen")}
	if _, ok := f["console"]; ok {
		s.Console = choice(p, f, "console", "off", "read", "write")
	}
	if n, ok := f["tls"]; ok {
		s.TLS = p.tls(n)
	}
	if n, ok := f["hosts"]; ok {
		s.Hosts = p.hosts(n)
	}
	if n, ok := f["auth"]; ok {
		s.Auth = p.auth(n)
	}
	if n, ok := f["rate"]; ok {
		s.Rate = p.rate(n)
	}
	if n, ok := f["cors"]; ok {
		s.CORS = p.cors(n)
	}
	if n, ok := f["connections"]; ok {
		if s.Connections = int(p.number(f, "connections")); s.Connections > maxConnections { //nolint:gosec // at most maxBound
			p.add(n.line, n.path, "must be at most %d", maxConnections)
		}
	}
	if n, ok := f["admin"]; ok {
		s.Admin = p.admin(n)
	}
	p.serverRules(f, s)
	return s
}

const maxConnections = 1_000_000

// serverRules checks the fields of a server against each other.
func (p *reader) serverRules(f map[string]node, s *Server) {
	if console := f["console"]; s.Auth != nil && s.Admin == nil && (s.Console == "read" || s.Console == "write") {
		p.add(console.line, console.path, "needs server.admin.key, because callers are authenticated: a browser gives it as the password of the console")
	}
	if s.Admin != nil && s.Admin.Listen != "" && s.Admin.Listen == cmp.Or(s.Listen, DefaultListen) {
		p.add(f["admin"].line, "server.admin.listen", "must differ from the address of the server")
	}
}

// required reports the fields that a mapping lacks. It reports nothing if n is not a mapping.
func (p *reader) required(n node, f map[string]node, keys ...string) {
	for _, key := range keys {
		if _, ok := f[key]; !ok && f != nil {
			p.add(n.line, join(n.path, key), "is required")
		}
	}
}

func (p *reader) tls(n node) *TLS {
	f := p.only(n, "cert", "key")
	p.required(n, f, "cert", "key")
	return &TLS{Cert: p.textOf(f, "cert"), Key: p.textOf(f, "key")}
}

func (p *reader) hosts(n node) []string {
	hosts := p.names(n)
	for i, host := range hosts {
		if host != "" && !validHost(host) {
			item := n.path + index(i)
			p.add(p.lines[item], item, "must be the name of a host, as once.example.com")
		}
	}
	return hosts
}

func validHost(host string) bool {
	return !strings.ContainsFunc(host, func(r rune) bool {
		return r > unicode.MaxASCII || !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune(".-_:[]", r)
	})
}

func (p *reader) auth(n node) *Auth {
	f := p.only(n, "keys", "oidc", "roles")
	if f != nil && len(f) == 0 {
		p.add(n.line, n.path, "must have keys, oidc or both; on AWS roles")
	}
	a := &Auth{Keys: p.localSecret(f, "keys")}
	if n, ok := f["roles"]; ok {
		a.Roles = p.roles(n)
	}
	if n, ok := f["oidc"]; ok {
		a.OIDC = p.oidc(n)
	}
	return a
}

// localSecret returns the location of a secret on this machine.
func (p *reader) localSecret(f map[string]node, key string) Secret {
	n, ok := f[key]
	s := Secret(p.text(n, ok))
	place, name, _ := strings.Cut(string(s), ":")
	if s != "" && (place != "env" && place != "file" || name == "") {
		p.add(n.line, n.path, "must say where the secret is, as env:NAME or file:PATH; a secret itself has no place in a configuration")
		return ""
	}
	return s
}

func (p *reader) oidc(n node) *OIDC {
	f := p.only(n, "issuer", "audience", "principal", "streams", "roles")
	p.required(n, f, "issuer", "audience")
	o := &OIDC{Issuer: p.textOf(f, "issuer"), Audience: p.textOf(f, "audience"), Principal: p.textOf(f, "principal"), Streams: p.textOf(f, "streams"), Roles: p.textOf(f, "roles")}
	if u, err := url.Parse(o.Issuer); o.Issuer != "" && (err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" || u.Scheme != "https" && (u.Scheme != "http" || !Loopback(u.Host))) {
		p.add(f["issuer"].line, f["issuer"].path, "must be a https URL without a query, as https://id.example.com: whoever can change its answers can make tokens")
	}
	return o
}

func (p *reader) rate(n node) *Rate {
	f := p.only(n, "perSecond", "burst")
	p.required(n, f, "perSecond")
	return &Rate{PerSecond: int(p.number(f, "perSecond")), Burst: int(p.number(f, "burst"))} //nolint:gosec // at most maxBound
}

func (p *reader) cors(n node) *CORS {
	f := p.only(n, "origins")
	p.required(n, f, "origins")
	c := &CORS{}
	list, ok := f["origins"]
	if !ok {
		return c
	}
	if c.Origins = p.names(list); len(c.Origins) == 0 {
		p.add(list.line, list.path, "must name at least one origin")
	}
	for i, origin := range c.Origins {
		if origin != "" && !validOrigin(origin) {
			item := list.path + index(i)
			p.add(p.lines[item], item, "must be an origin, as https://app.example.com, without a path; * is not allowed")
		}
	}
	return c
}

// validOrigin reports whether a text is an origin as browsers send it.
func validOrigin(origin string) bool {
	u, err := url.Parse(origin)
	return err == nil && (u.Scheme == "https" || u.Scheme == "http") && u.Host != "" && !strings.Contains(u.Host, "*") &&
		origin == u.Scheme+"://"+strings.ToLower(u.Host)
}

func (p *reader) admin(n node) *Admin {
	f := p.only(n, "listen", "key")
	p.note(f)
	p.required(n, f, "key")
	return &Admin{Listen: p.address(f, "listen"), Key: p.localSecret(f, "key")}
}

// address returns an address to listen on.
func (p *reader) address(f map[string]node, key string) string {
	n, ok := f[key]
	text := p.text(n, ok)
	if text == "" {
		return ""
	}
	_, port, err := net.SplitHostPort(text)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	if err != nil {
		p.add(n.line, n.path, "must be HOST:PORT or :PORT")
	}
	return text
}

// Loopback reports whether an address with or without a port can be reached from this machine only.
func Loopback(address string) bool {
	host := address
	if name, _, err := net.SplitHostPort(address); err == nil {
		host = name
	}
	ip, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return host == "localhost" || err == nil && ip.Unmap().IsLoopback()
}

// ServerWarnings returns settings of the server that are valid and probably mistakes, and files and
// secrets that "once serve" needs and that are not there.
func (c *Config) ServerWarnings() []string {
	if c.Server == nil {
		return nil
	}
	s, listen := c.Server, cmp.Or(c.Server.Listen, DefaultListen)
	out := s.Exposed(listen)
	out = append(out, s.RolesWarnings()...)
	if s.Auth == nil && !Loopback(listen) {
		out = append(out, "server.auth: once serve does not start without it or --insecure, unless the host is a name of 127.0.0.1")
	}
	if s.Auth != nil && s.Auth.Keys == "" && s.Auth.OIDC == nil {
		out = append(out, "server.auth: has neither keys nor oidc: once serve refuses every request")
	}
	if s.TLS != nil {
		out = append(out, s.TLS.missing()...)
	}
	secrets := s.secrets()
	for _, path := range slices.Sorted(maps.Keys(secrets)) {
		if _, err := secrets[path].Resolve(); err != nil {
			out = append(out, fmt.Sprintf("%s: %v: once serve does not start without it", path, err))
		}
	}
	return out
}

// secrets returns the locations of the keys of callers and operators, by their fields.
func (s *Server) secrets() map[string]Secret {
	out := map[string]Secret{}
	if s.Auth != nil && s.Auth.Keys != "" {
		out["server.auth.keys"] = s.Auth.Keys
	}
	if s.Admin != nil {
		out["server.admin.key"] = s.Admin.Key
	}
	return out
}

// missing returns a warning if the files are not a pair of certificate and key.
func (t *TLS) missing() []string {
	for _, f := range []struct{ field, path string }{{"cert", t.Cert}, {"key", t.Key}} {
		if _, err := os.Stat(f.path); err != nil {
			return []string{fmt.Sprintf("server.tls.%s: %v: once serve does not start without it", f.field, err)}
		}
	}
	if _, err := tls.LoadX509KeyPair(t.Cert, t.Key); err != nil && !errors.Is(err, os.ErrPermission) {
		return []string{fmt.Sprintf("server.tls: %v: once serve does not start with it", err)}
	}
	return nil
}

// Exposed returns warnings if other machines can reach a server at an address or its admin API, and
// it does not authenticate callers or does not encrypt, and if every user of this machine can read
// a key.
func (s *Server) Exposed(listen string) []string {
	var out []string
	if s.TLS == nil && s.Admin != nil && s.Admin.Listen != "" && !Loopback(s.Admin.Listen) {
		out = append(out, fmt.Sprintf("server.tls: the admin API at %s is reachable from other machines, and the connection is not encrypted: the key of operators can be read on the way, unless a proxy in front of it encrypts", s.Admin.Listen))
	}
	if s.Auth == nil && !Loopback(listen) {
		out = append(out, fmt.Sprintf("server.auth: %s is reachable from other machines, and callers are not authenticated: everybody who reaches it can send, read and delete", listen))
	}
	if s.TLS == nil && !Loopback(listen) {
		out = append(out, fmt.Sprintf("server.tls: %s is reachable from other machines, and the connection is not encrypted: keys and bodies can be read on the way, unless a proxy in front of it encrypts", listen))
	}
	files := map[string]string{}
	for path, secret := range s.secrets() {
		if file, ok := strings.CutPrefix(string(secret), "file:"); ok {
			files[path] = file
		}
	}
	if s.TLS != nil {
		files["server.tls.key"] = s.TLS.Key
	}
	for _, path := range slices.Sorted(maps.Keys(files)) {
		if info, err := os.Stat(files[path]); err == nil && info.Mode().Perm()&0o004 != 0 && runtime.GOOS != "windows" {
			out = append(out, fmt.Sprintf("%s: every user of this machine can read %s: chmod 600 it", path, files[path]))
		}
	}
	return out
}
