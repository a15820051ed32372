package infra

import (
	"errors"
	"fmt"
	"runtime"
	"time"
)

// Settings choose what a stack has. They come from the context of the CDK; docs/deploy.md is the table of them.
type Settings struct {
	// Stack is the stack's name. Defaults to Once.
	Stack string
	// Config is the path of the configuration of streams and destinations. Defaults to once.yaml.
	Config string
	// Assets is the folder with a folder for each function, ingest, process and publish, each with a file bootstrap. Defaults to ../dist.
	Assets string
	// IngestFunction, ProcessFunction and PublishFunction are folders with a bootstrap of your own. Each defaults to its folder in Assets.
	IngestFunction, ProcessFunction, PublishFunction string
	// Architecture is what the bootstraps are built for. Defaults to arm64; for emulators to that of this machine.
	Architecture Architecture
	// Memory of each function, in MB; CPU is given in proportion. Defaults to 512.
	Memory int
	// Timeout of the process and publish functions. Defaults to 30 s. Messages that fail come again after six times as long.
	Timeout time.Duration
	// MaxConcurrency is how many invocations each queue may cause at once. Defaults to 50.
	MaxConcurrency int
	// ReservedConcurrency of each function. Defaults to 0, which reserves and limits nothing. At least 2·MaxConcurrency + 1: two queues feed a function, and sweeps or redrives.
	ReservedConcurrency int
	// MaxReceives is how often a message is received before an ingress queue gives it up to its dead-letter queue; the functions refuse what is hopeless long
	// before, with a reason. Defaults to 100: five hours of an unreachable store.
	MaxReceives int
	// Sweep is the time between two looks at groups that have messages held. Defaults to 1 minute.
	Sweep time.Duration
	// SweepAll is the time between two looks at all groups. Defaults to 1 hour.
	SweepAll time.Duration
	// MetricsNamespace is where the functions count in CloudWatch. Defaults to the name of the stack.
	MetricsNamespace string
	// Environment has further variables of the functions. Whoever may read a function's configuration sees them.
	Environment map[string]string
	// GroupsTable and TokensTable name tables that are there already, such as restored ones. Both or none; by default the stack makes its own.
	GroupsTable, TokensTable string
	// Paused takes messages in and processes none: queues feed nothing, and nothing is swept. Defaults to false.
	Paused bool
	// KMSKeys are the ARNs of customer-managed keys that destinations and secrets are encrypted with. Defaults to none.
	KMSKeys []string
	// API is the front door.
	API APISettings
	// DeletionProtection keeps the stack from being deleted, and tables and bucket from being deleted with it. Defaults to true; for emulators to false.
	DeletionProtection bool
	// LogRetentionDays is how long logs are kept. Defaults to 30; one of the numbers that CloudWatch has.
	LogRetentionDays int
	// AlarmTopic is the ARN of an SNS topic that is told of alarms. Defaults to none.
	AlarmTopic string
	// AlarmAge is how long something may wait before it alarms. Defaults to 15 minutes.
	AlarmAge time.Duration
	// Tags of everything, beside once:stack.
	Tags map[string]string
	// Emulator leaves out what emulators refuse or skip: the dashboard, the role for access logs of REST APIs, termination protection. It also trusts the account
	// as sender of messages, because emulators know no other.
	Emulator bool
}

// Architecture is an instruction set, by Go's name.
type Architecture string

// The architectures.
const (
	ARM64 Architecture = "arm64"
	AMD64 Architecture = "amd64"
)

func defaults() Settings {
	return Settings{
		Stack: "Once", Config: "once.yaml", Assets: "../dist", Architecture: ARM64, Memory: 512, Timeout: 30 * time.Second, MaxConcurrency: 50, MaxReceives: 100,
		Sweep: time.Minute, SweepAll: time.Hour, DeletionProtection: true, LogRetentionDays: 30, AlarmAge: 15 * time.Minute,
		API: APISettings{Kind: HTTP, Auth: IAM, Rate: 1000, Burst: 500, LogsRole: true},
	}
}

// complete sets what depends on other settings, unless it was given, and checks what must fit together.
func (s *Settings) complete(given map[string]any) error {
	orElse(&s.MetricsNamespace, s.Stack)
	if s.Emulator {
		if given["architecture"] == nil {
			s.Architecture = Architecture(runtime.GOARCH)
		}
		if given["deletionProtection"] == nil {
			s.DeletionProtection = false
		}
		s.API.LogsRole = false
	}
	if err := checkReserved(s.ReservedConcurrency, s.MaxConcurrency); err != nil {
		return fmt.Errorf("context %w", err)
	}
	if (s.GroupsTable == "") != (s.TokensTable == "") {
		return errors.New("context groupsTable and tokensTable: give both or none")
	}
	if retention(s.LogRetentionDays) == "" {
		return fmt.Errorf("context logRetentionDays: CloudWatch does not have %d", s.LogRetentionDays)
	}
	return s.API.check()
}

// checkReserved makes sure that both queues of a function can be served at once, and one more invocation.
func checkReserved(reserved, perQueue int) error {
	if least := 2*perQueue + 1; reserved != 0 && reserved < least {
		return fmt.Errorf("reservedConcurrency: %d is less than %d: two queues feed a function, each with maxConcurrency %d at once, and sweeps or redrives need one more; "+
			"what is throttled waits, and its delivery counts", reserved, least, perQueue)
	}
	return nil
}

// APISettings choose the front door.
type APISettings struct {
	// Kind defaults to HTTP.
	Kind APIKind
	// Auth defaults to IAM.
	Auth Auth
	// JWTIssuer and JWTAudience are what tokens must be of. Required for an HTTP API with JWT.
	JWTIssuer   string
	JWTAudience []string
	// UserPool is the ARN of a Cognito user pool. Required for a REST API with JWT.
	UserPool string
	// Keys are the names of the API keys to make, one for each caller. Required with Key.
	Keys []string
	// VPCEndpoints make a REST API private: only they reach it. Defaults to none.
	VPCEndpoints []string
	// Rate and Burst are the requests a second and at once that the whole API takes. They default to 1000 and 500.
	Rate, Burst int
	// LogsRole makes the role with which API Gateway writes access logs of REST APIs; there is one for the whole account and region. Defaults to true.
	LogsRole bool
}

// APIKind is what API Gateway is asked for.
type APIKind string

// The kinds.
const (
	HTTP APIKind = "http"
	REST APIKind = "rest"
)

// Auth is how callers are told apart. Identities of messages are scoped by what it finds out.
type Auth string

// The ways.
const (
	IAM  Auth = "iam"  // signed requests; the role or user is the principal
	JWT  Auth = "jwt"  // the token's issuer and subject are
	Key  Auth = "key"  // the API key is; only REST APIs have keys
	None Auth = "none" // nobody is: all callers share one set of identities
)

func (s APISettings) check() error {
	var errs []error
	need := func(ok bool, problem string) {
		if !ok {
			errs = append(errs, errors.New("context "+problem))
		}
	}
	rest := s.Kind == REST
	need(rest || s.Auth != Key, "auth: HTTP APIs have no keys; set api=rest")
	need(rest || len(s.VPCEndpoints) == 0, "vpcEndpoints: HTTP APIs can't be private; set api=rest")
	need(rest || s.Auth != JWT || s.JWTIssuer != "" && len(s.JWTAudience) > 0, "auth: jwt needs jwtIssuer and jwtAudience")
	need(!rest || s.Auth != JWT || s.UserPool != "", "auth: jwt of a REST API needs userPool")
	need(s.Auth != Key || len(s.Keys) > 0, "auth: key needs apiKeys")
	need(s.Auth == JWT || s.JWTIssuer == "" && len(s.JWTAudience) == 0 && s.UserPool == "", "jwtIssuer, jwtAudience, userPool: set auth=jwt")
	need(s.Auth == Key || len(s.Keys) == 0, "apiKeys: set auth=key")
	return errors.Join(errs...)
}
