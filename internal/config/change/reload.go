package change

import (
	"fmt"
	"maps"
	"path"
	"reflect"
	"slices"
	"strings"

	"github.com/effectively-once/once/internal/config"
)

// reloadable returns the patterns of the fields that a running system can change, as package path
// matches them, with slashes in place of dots. Fields below such a field can change, too.
func reloadable() []string {
	return []string{
		"dead_letters/*", "destinations/*", "handlers/*/*", "schedules/*",
		"streams/*/destinations", "streams/*/direct", "streams/*/gap", "streams/*/held", "streams/*/limits", "streams/*/log/retain", "streams/*/retention", "streams/*/retry", "streams/*/state",
		"server/auth/*", "server/admin/key", "server/cors", "server/hosts", "server/rate", "server/tls/*",
	}
}

// Reload compares the configuration of a running system with another one. It returns the fields
// that differ, as "destinations.shop.webhook" or "streams.new (added)", in order. restart has those
// of them that a running system can't change, with the reason if there is more to say.
func Reload(from, to *config.Config) (changed, restart []string) {
	d := &differences{}
	d.compare(nil, reflect.ValueOf(*from), reflect.ValueOf(*to))
	for _, f := range d.list {
		changed = append(changed, f.String())
		if why, needed := f.restart(from, to); needed {
			restart = append(restart, f.String()+why)
		}
	}
	return changed, restart
}

// A difference is a field that differs.
type difference struct {
	at   []string
	what string // added, removed, or nothing if it has changed
}

func (f *difference) String() string {
	if f.what != "" {
		return strings.Join(f.at, ".") + " (" + f.what + ")"
	}
	return strings.Join(f.at, ".")
}

// restart reports whether the system must be started again, and why.
func (f *difference) restart(from, to *config.Config) (why string, needed bool) {
	if len(f.at) == 2 && f.at[0] == "streams" && f.what == "added" {
		return "", false
	}
	if len(f.at) == 2 && f.at[0] == "handlers" {
		_, was := from.Streams[f.at[1]]
		kinds := []config.HandlerKind{from.Handlers[f.at[1]].Kind(), to.Handlers[f.at[1]].Kind()}
		if !was || kinds[0] == config.HandlerCode && kinds[1] == config.HandlerCode { // settings of a handler in code
			return "", false
		}
		return ": messages that were forwarded get a record of their group, or lose it, so that effects can get other identities", true
	}
	for _, pattern := range reloadable() {
		depth := strings.Count(pattern, "/") + 1
		if len(f.at) < depth {
			continue
		}
		if ok, _ := path.Match(pattern, escaped(f.at[:depth])); ok {
			return f.identities(from, to)
		}
	}
	if f.String() == "server.auth (added)" || f.String() == "server.auth (removed)" {
		// half a file, without its end, must not open a server to everybody
		return ": messages get other identities, so that a retry would be a new message", true
	}
	return "", true
}

// escaped joins names, which have no slashes.
func escaped(names []string) string { return strings.Join(names, "/") }

// identities reports whether a change of destinations gives other identities to effects: a system
// that processes messages meanwhile could send one under two.
func (f *difference) identities(from, to *config.Config) (why string, needed bool) {
	name := f.at[1]
	switch {
	case f.at[0] == "destinations" && len(f.at) > 2 && f.at[2] != "retry":
		if numbered(from, name) || numbered(to, name) {
			return ": its effects are numbered for the stream or the system that they go to", true
		}
	case f.at[0] == "streams" && f.at[len(f.at)-1] == "destinations":
		if sendsNumbered(from, name) != sendsNumbered(to, name) {
			return ": with a first or without a last destination that is a stream or a system, effects get other identities", true
		}
	}
	return "", false
}

// numbered reports whether the effects to a destination are numbered without gaps.
func numbered(c *config.Config, name string) bool {
	kind := c.Destinations[name].Kind()
	return kind == config.KindStream && c.Destinations[name].Stream != "" || kind == config.KindOnce
}

func sendsNumbered(c *config.Config, stream string) bool {
	return slices.ContainsFunc(c.Streams[stream].Destinations, func(to string) bool { return numbered(c, to) })
}

// differences collects the fields that differ.
type differences struct{ list []difference }

func (d *differences) add(at []string, what string) {
	d.list = append(d.list, difference{slices.Clone(at), what})
}

// compare compares two values of one type. Structs and maps are compared by their fields, all
// others as a whole.
func (d *differences) compare(at []string, a, b reflect.Value) {
	switch a.Kind() {
	case reflect.Struct:
		if a.NumField() == 0 || !a.Type().Field(0).IsExported() { // as a time
			break
		}
		for i := range a.NumField() {
			name, _, _ := strings.Cut(a.Type().Field(i).Tag.Get("json"), ",")
			d.compare(append(at, name), a.Field(i), b.Field(i))
		}
		return
	case reflect.Map:
		d.maps(at, a, b)
		return
	case reflect.Pointer:
		switch {
		case a.IsNil() && b.IsNil():
		case a.IsNil():
			d.add(at, "added")
		case b.IsNil():
			d.add(at, "removed")
		default:
			d.compare(at, a.Elem(), b.Elem())
		}
		return
	default:
	}
	if a.Kind() == reflect.Slice && a.Len()+b.Len() == 0 { // nil and empty are the same
		return
	}
	if !reflect.DeepEqual(a.Interface(), b.Interface()) {
		d.add(at, "")
	}
}

func (d *differences) maps(at []string, a, b reflect.Value) {
	keys := map[string]reflect.Value{}
	for _, key := range slices.Concat(a.MapKeys(), b.MapKeys()) {
		keys[fmt.Sprint(key)] = key
	}
	for _, name := range slices.Sorted(maps.Keys(keys)) {
		x, y := a.MapIndex(keys[name]), b.MapIndex(keys[name])
		switch at := append(at, name); {
		case !x.IsValid():
			d.add(at, "added")
		case !y.IsValid():
			d.add(at, "removed")
		default:
			d.compare(at, x, y)
		}
	}
}
