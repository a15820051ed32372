package change_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/effectively-once/once/internal/config"
	"github.com/effectively-once/once/internal/config/change"
)

const running = `
name: eu
streams:
  orders: {destinations: [shop], retention: 20d, retry: {for: 1h}}
  chat: {admission: sequence, destinations: [next], log: {retain: 7d}, gap: {policy: skip, after: 30s}}
  next: {}
  work: {pool: {window: 5}}
destinations:
  shop: {webhook: "https://shop.example/hook", secret: "env:A"}
  next: {stream: next}
  link: {once: "https://us.example", stream: room, auth: "env:A"}
  retry: {stream: next}
schedules: {nightly: {cron: "0 3 * * *", stream: orders, body: {a: 1}}}
handlers:
  orders: {url: "https://orders.example/x", secret: "env:A", timeout: 20s}
ingress: {s3: {from: s3, arns: ["arn:aws:s3:::x"], stream: next}}
server:
  listen: 127.0.0.1:8443
  tls: {cert: a.crt, key: a.key}
  auth: {keys: "env:A"}
  rate: {perSecond: 10}
  cors: {origins: ["https://a.example"]}
  console: read
  admin: {listen: "127.0.0.1:9444", key: "env:A"}
`

func TestReloadNamesWhatChangesAndWhatNeedsARestart(t *testing.T) {
	for _, c := range []struct{ old, new, changed, restart string }{
		{"https://shop.example/hook", "https://shop.example/other", "destinations.shop.webhook", ""},
		{"env:A\"}\n  next", "env:B\"}\n  next", "destinations.shop.secret", ""},
		{"secret: \"env:A\"", "secret: \"env:A\", retry: {max: 1m}", "destinations.shop.retry.max", ""},
		{"webhook: \"https://shop.example/hook\", secret: \"env:A\"", "file: out", "destinations.shop.file, destinations.shop.webhook, destinations.shop.secret", ""},
		{"destinations:\n", "destinations:\n  ledger: {file: out}\n", "destinations.ledger (added)", ""},
		{"[shop]", "[shop, link]", "streams.orders.destinations", "streams.orders.destinations: with a first or without a last destination that is a stream or a system, effects get other identities"},
		{"[next]", "[next, shop]", "streams.chat.destinations", ""},
		{"{stream: next}", "{stream: orders}", "destinations.next.stream", "destinations.next.stream: its effects are numbered for the stream or the system that they go to"},
		{"https://us.example", "https://asia.example", "destinations.link.once", "destinations.link.once: its effects are numbered for the stream or the system that they go to"},
		{"auth: \"env:A\"}\n  retry", "auth: \"env:A\", retry: {max: 1m}}\n  retry", "destinations.link.retry.max", ""},
		{"auth: \"env:A\"}\n  retry", "auth: \"env:A\", relay: false}\n  retry", "destinations.link.relay (added)", "destinations.link.relay (added): its effects are numbered for the stream or the system that they go to"},
		{"retry: {stream: next}", "retry: {stream: orders}", "destinations.retry.stream", "destinations.retry.stream: its effects are numbered for the stream or the system that they go to"},
		{"retry: {stream: next}", "retry: {stream: next, retry: {max: 1m}}", "destinations.retry.retry.max", ""},
		{"  retry: {stream: next}\n", "", "destinations.retry (removed)", ""},
		{"streams:\n", "streams:\n  more: {}\n", "streams.more (added)", ""},
		{"  work: {pool: {window: 5}}\n", "", "streams.work (removed)", "streams.work (removed)"},
		{"pool: {window: 5}", "pool: {window: 6}", "streams.work.pool.window", "streams.work.pool.window"},
		{"orders: {destinations: [shop], ", "orders: {destinations: [shop], admission: token, ", "streams.orders.admission", "streams.orders.admission"},
		{"next: {}", "next: {order: none}", "streams.next.order", "streams.next.order"},
		{"next: {}", "next: {log: {}}", "streams.next.log (added)", "streams.next.log (added)"},
		{"retain: 7d", "retain: 8d", "streams.chat.log.retain", ""},
		{"after: 30s", "after: 40s", "streams.chat.gap.after", ""},
		{"retention: 20d", "retention: 30d", "streams.orders.retention", ""},
		{"next: {}", "next: {state: {retain: 90d}}", "streams.next.state.retain", ""},
		{"for: 1h", "for: 2h", "streams.orders.retry.for", ""},
		{"name: eu", "name: us", "name", "name"},
		{"stream: next}}", "stream: orders}}", "ingress.s3.stream", "ingress.s3.stream"},
		{"name: eu", "name: eu\nrestores: [2026-01-02T03:04:05Z]", "restores", "restores"},
		{":8443", ":8444", "server.listen", "server.listen"},
		{"  auth: {keys: \"env:A\"}\n", "", "server.auth (removed)", "server.auth (removed): messages get other identities, so that a retry would be a new message"},
		{"  auth: {keys: \"env:A\"}\n", "  auth: {keys: \"env:B\", oidc: {issuer: \"https://id.example\", audience: a}}\n", "server.auth.keys, server.auth.oidc (added)", ""},
		{":9444", ":9445", "server.admin.listen", "server.admin.listen"},
		{":9444\", key: \"env:A\"", ":9444\", key: \"env:B\"", "server.admin.key", ""},
		{"console: read", "console: write", "server.console", "server.console"},
		{"a.crt", "b.crt", "server.tls.cert", ""},
		{"  tls: {cert: a.crt, key: a.key}\n", "", "server.tls (removed)", "server.tls (removed)"},
		{"perSecond: 10", "perSecond: 20", "server.rate.perSecond", ""},
		{"  rate: {perSecond: 10}\n", "", "server.rate (removed)", ""},
		{"a.example\"]", "b.example\"]", "server.cors.origins", ""},
		{"  console: read\n", "  console: read\n  hosts: [a.example]\n", "server.hosts", ""},
		{"0 3 * * *", "0 4 * * *", "schedules.nightly.cron", ""},
		{"{a: 1}", "{a: 2}", "schedules.nightly.body", ""},
		{", body: {a: 1}", "", "schedules.nightly.body", ""},
		{"schedules: {", "schedules: {more: {cron: '@daily', stream: orders}, ", "schedules.more (added)", ""},
		{"schedules: {nightly: {cron: \"0 3 * * *\", stream: orders, body: {a: 1}}}\n", "", "schedules.nightly (removed)", ""},
		{"https://orders.example/x", "https://orders.example/y", "handlers.orders.url", ""},
		{"timeout: 20s", "timeout: 30s, batch: 1", "handlers.orders.timeout, handlers.orders.batch", ""},
		{"url: \"https://orders.example/x\", secret: \"env:A\"", "lambda: x", "handlers.orders.url, handlers.orders.secret, handlers.orders.lambda", ""},
		{"handlers:\n", "handlers:\n  chat: {url: \"https://a.example\"}\n", "handlers.chat (added)", "handlers.chat (added): messages that were forwarded get a record of their group, or lose it, so that effects can get other identities"},
		{"handlers:\n  orders: {url: \"https://orders.example/x\", secret: \"env:A\", timeout: 20s}\n", "", "handlers.orders (removed)", "handlers.orders (removed): messages that were forwarded get a record of their group, or lose it, so that effects can get other identities"},
		{"name: eu", "name: eu", "", ""},
	} {
		text := strings.Replace(running, c.old, c.new, 1)
		from, err := config.Parse("once.yaml", []byte(running))
		if err != nil {
			t.Fatal(err)
		}
		to, err := config.Parse("once.yaml", []byte(text))
		if err != nil {
			t.Fatalf("%s: %v", c.new, err)
		}
		changed, restart := change.Reload(from, to)
		if got := strings.Join(changed, ", "); got != c.changed {
			t.Errorf("%q instead of %q: changed %q, want %q", c.new, c.old, got, c.changed)
		}
		if got := strings.Join(restart, ", "); got != c.restart {
			t.Errorf("%q instead of %q: restart for %q, want %q", c.new, c.old, got, c.restart)
		}
		if slices.ContainsFunc(changed, func(f string) bool {
			return strings.Contains(f, "env:") || strings.Contains(f, "hook") && !strings.HasSuffix(f, "webhook")
		}) {
			t.Errorf("%q names a secret: %q", c.new, changed)
		}
	}
}

func TestANewStreamWithAHandlerNeedsNoRestart(t *testing.T) {
	from := parse(t, "streams: {a: {}}")
	to := parse(t, "streams: {a: {}, b: {}}\nhandlers: {b: {url: \"https://a.example\"}}")
	changed, restart := change.Reload(from, to)
	if got := strings.Join(changed, ", "); got != "streams.b (added), handlers.b (added)" || len(restart) > 0 {
		t.Errorf("changed %q, restart for %q; want both added, and no restart", got, restart)
	}
}
