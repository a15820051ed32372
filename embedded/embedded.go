// Package embedded opens a system on a folder of this machine: durable queues, groups and tokens in
// one Pebble database, in this process, without any service. "once dev" runs it.
//
// # Limits
//
// A folder can be open in one process at a time. Destinations that need AWS are written to files in
// the folder instead.
package embedded

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/effectively-once/once"
	"github.com/effectively-once/once/internal/config"
	"github.com/effectively-once/once/internal/system"
	"github.com/effectively-once/once/internal/system/embedded"
)

// Options configure a system. The zero value runs the streams declared in code, with no
// destinations and no listener.
type Options struct {
	// ConfigFile is the path of a once.yaml. Empty means Config. Its block "server" holds for
	// Listen, as for "once serve": keys, TLS, hosts, limits, the admin API. The keys and the rate
	// of callers hold for [once.System.Handler], too. Its listen and console are not used: Listen
	// and Console are. Keys are read at the start.
	ConfigFile string
	// Config is the text of a once.yaml. If it is empty, there are only the streams declared in
	// code, and no destinations.
	Config string
	// Listen is the address on which Run serves HTTP. If it is empty, Run does not listen, at
	// server.admin.listen neither: use [once.System.Handler]. If other machines reach the address,
	// Run returns an error without server.auth or Insecure.
	Listen string
	// Insecure lets everybody who reaches Listen send, read and delete. Set it if a proxy or a
	// firewall decides who does.
	Insecure bool
	// AllowHosts are host names under which a proxy forwards requests to Listen. Addresses,
	// localhost and the host of Listen are always allowed; requests to other names are refused with
	// 403.
	AllowHosts []string
	// MaxWaiting is the largest number of HTTP callers that wait for handlers at a time: with
	// Prefer: wait, or while their one-time requests run. The next one gets 429 with Retry-After.
	// Defaults to 1000.
	MaxWaiting int
	// Console serves pages at /console, on Listen and in [once.System.Handler]: groups and sessions
	// that wait, the reasons, messages, logs, and dead letters. It asks for server.admin.key of the
	// configuration; without it, the console needs no key, or with server.auth is off. It refuses
	// requests whose Host is not an address, localhost, the host of Listen or one of AllowHosts.
	// Defaults to [ConsoleOff].
	Console Console
	// Ready is called once, when Run is ready, with the address of its listener.
	Ready func(address string)
	// Stdout receives the output of the file destination "-". Defaults to os.Stdout.
	Stdout io.Writer
	// AcceptLoss opens a folder even if a part of it was damaged or removed, or if it is older than
	// its output files, and logs the loss. Without it, such a folder is an error.
	AcceptLoss bool
	// Log gets a line for each failed try, and with level Debug for each message. A line names its
	// message by hashes, which "once show --hash" finds. Defaults to discarding.
	Log *slog.Logger
	// LogKeys adds the keys and groups of messages to the lines of Log. They may be personal data.
	LogKeys bool
	// DeadLetters bounds the dead letters of the folder. Its fields hold in place of dead_letters of
	// the configuration.
	DeadLetters DeadLetters
	// MeterProvider gets the metrics, under the names that docs/observability.md lists, and
	// TracerProvider a span for each request, each run of a handler and each delivery to a
	// destination. Handlers have their span in their context. Set them to those of your program,
	// such as otel.GetMeterProvider() and otel.GetTracerProvider(). If one is nil, which is the
	// default, it gets nothing; the environment (OTEL_…) is not read. Flush and shut down the
	// providers after Close: they are yours.
	MeterProvider  metric.MeterProvider
	TracerProvider trace.TracerProvider
}

// DeadLetters bounds two queues: the dead letters of messages, and the dead letters of effects. A
// zero field takes the value of the configuration. If that has none, it takes the default.
type DeadLetters struct {
	// Retain is how long a dead letter is kept after its message was last refused. Defaults to 14
	// days.
	Retain time.Duration
	// Most is how many dead letters of each kind are kept; beyond it the oldest of the stream with the
	// most are dropped.
	// Defaults to 100,000.
	Most int
}

// A Console is a setting of the console at /console.
type Console string

// The settings of a console.
const (
	ConsoleOff   Console = "off"
	ConsoleRead  Console = "read"
	ConsoleWrite Console = "write" // it may send, redrive, drop and skip
)

// ErrLocked says that another process has the folder open.
var ErrLocked = embedded.ErrLocked

// Open opens or creates the data folder. Close the system when Run has returned. The error for a copy
// that was not put back by "once restore" names the command to run.
func Open(dir string, o Options) (*once.System, error) {
	c, err := o.config()
	if err != nil {
		return nil, err
	}
	if o.DeadLetters.Retain < 0 || o.DeadLetters.Most < 0 {
		return nil, errors.New("open embedded system: DeadLetters must not be negative")
	}
	c.DeadLetters.Retain = cmp.Or(config.Duration(o.DeadLetters.Retain), c.DeadLetters.Retain)
	c.DeadLetters.Most = cmp.Or(o.DeadLetters.Most, c.DeadLetters.Most)
	s, err := embedded.Open(embedded.Options{Config: c, Server: c.Server, DataDir: dir, Listen: o.Listen, Insecure: o.Insecure, AllowHosts: o.AllowHosts, MaxWaiting: o.MaxWaiting, Console: embedded.Console(o.Console), Ready: o.Ready, Stdout: o.Stdout, Log: o.Log, LogKeys: o.LogKeys, AcceptLoss: o.AcceptLoss, MeterProvider: o.MeterProvider, TracerProvider: o.TracerProvider})
	if err != nil {
		return nil, fmt.Errorf("open embedded system: %w", err)
	}
	return system.New(s).(*once.System), nil
}

func (o Options) config() (*config.Config, error) {
	switch {
	case o.ConfigFile != "" && o.Config != "":
		return nil, errors.New("open embedded system: ConfigFile and Config exclude each other")
	case o.ConfigFile != "":
		return config.Load(o.ConfigFile)
	case o.Config != "":
		return config.Parse("config", []byte(o.Config))
	default:
		return &config.Config{}, nil
	}
}
