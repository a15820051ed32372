package infra

import (
	"errors"
	"fmt"
	"runtime"
	"time"
)

// Settings configure a stack. They come from the context of the CDK; docs/deploy.md lists them.
type Settings struct {
	// PipelineProps are the settings of the pipeline in the stack. Their Config, Tables and
	// Unprotected follow from ConfigFile, GroupsTable and TokensTable, and DeletionProtection.
	PipelineProps
	// Stack is the stack's name. Defaults to Once.
	Stack string
	// ConfigFile is the path of the configuration of streams and destinations. Defaults to
	// once.yaml.
	ConfigFile string
	// GroupsTable and TokensTable name existing tables, such as restored ones. Both or none; by
	// default the stack creates its own.
	GroupsTable, TokensTable string
	// DeletionProtection keeps the stack from being deleted, and tables, queues, bucket and logs
	// from being deleted with it. Defaults to true; for emulators to false.
	DeletionProtection bool
	// AlarmTopic is the ARN of an SNS topic that alarms are sent to. Defaults to none.
	AlarmTopic string
	// PageTopic is the ARN of an SNS topic that alarms with the severity page are sent to. Defaults
	// to AlarmTopic.
	PageTopic string
	// AlarmAge is how long a message may wait before there is an alarm. Defaults to 15 minutes.
	AlarmAge time.Duration
	// AlarmsOff lists alarms to leave out, by name. Defaults to none.
	AlarmsOff []string
	// AccountConcurrency is how many functions may run at a time in the account and region.
	// Defaults to 1000. New accounts have less: check Service Quotas.
	AccountConcurrency int
	// EncryptionKey is the ARN of a customer-managed key for everything that is stored. Defaults to
	// none.
	EncryptionKey string
	// VPC, SubnetIDs and SecurityGroupIDs are the network of the functions. They default to none,
	// SecurityGroupIDs to a new group for each function.
	VPC                         string
	SubnetIDs, SecurityGroupIDs []string
	// BoundaryARN is the managed policy that bounds all roles. Defaults to none.
	BoundaryARN string
	// LayerARNs are the versions of layers of the functions. Default to none.
	LayerARNs []string
	// MinPollers and MaxPollers are the Pollers; 0 if the settings are not given.
	MinPollers, MaxPollers int
	// Construct makes a template for the construct of packaging/construct, which includes it in
	// stacks of other apps and sets the functions, which are Archives. If ConfigFile is empty, it
	// is for any configuration without sources. Defaults to false.
	Construct bool
	// Tags of all resources, in addition to once:stack.
	Tags map[string]string
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
		PipelineProps: PipelineProps{
			Assets: "../dist", Architecture: ARM64, Memory: 512, Timeout: 30 * time.Second, MaxConcurrency: 50, BatchSize: 10,
			Sweep: time.Minute, SweepAll: time.Hour, LogRetentionDays: 30,
			API: APISettings{Kind: HTTP, Auth: IAM, Rate: 1000, Burst: 500, LogsRole: true},
		},
		Stack: "Once", ConfigFile: "once.yaml", DeletionProtection: true, AlarmAge: 15 * time.Minute, AccountConcurrency: 1000,
	}
}

// complete sets defaults that depend on other settings, and checks settings against each other.
func (s *Settings) complete(given map[string]any) error {
	if err := s.checkFunctions(given); err != nil {
		return err
	}
	if !s.Construct {
		orElse(&s.MetricsNamespace, s.Stack)
	} else if given["config"] == nil {
		s.ConfigFile = ""
	}
	if s.Emulator {
		if given["architecture"] == nil {
			s.Architecture = Architecture(runtime.GOARCH)
		}
		if given["deletionProtection"] == nil {
			s.DeletionProtection = false
		}
		s.API.LogsRole = false
	}
	if err := s.completeScaling(given); err != nil {
		return fmt.Errorf("context %w", err)
	}
	if (s.VPC == "") != (len(s.SubnetIDs) == 0) || s.VPC == "" && len(s.SecurityGroupIDs) > 0 {
		return errors.New("context vpc, subnets: give both or none; securityGroups need them")
	}
	if (s.GroupsTable == "") != (s.TokensTable == "") {
		return errors.New("context groupsTable and tokensTable: give both or none")
	}
	if retention(s.LogRetentionDays) == "" {
		return fmt.Errorf("context logRetentionDays: CloudWatch does not have %d", s.LogRetentionDays)
	}
	return s.API.check()
}

// APISettings configure the HTTP API.
type APISettings struct {
	// Kind defaults to HTTP.
	Kind APIKind
	// Auth defaults to IAM.
	Auth Auth
	// JWTIssuer and JWTAudience are the required issuer and audience of tokens. Required for an
	// HTTP API with JWT.
	JWTIssuer   string
	JWTAudience []string
	// UserPool is the ARN of a Cognito user pool. Required for a REST API with JWT.
	UserPool string
	// Keys are the names of the API keys to make, one for each caller. Required with Key.
	Keys []string
	// VPCEndpoints make a REST API private: it can be reached only through them. Defaults to none.
	VPCEndpoints []string
	// Rate is the number of requests per second, and Burst the number of concurrent requests, that
	// the whole API accepts. They default to 1000 and 500.
	Rate, Burst int
	// CORSOrigins are the origins of web pages whose scripts may call an HTTP API. Default to none.
	CORSOrigins []string
	// LogsRole makes the role with which API Gateway writes access logs of REST APIs; an account
	// and region has only one. Defaults to true.
	LogsRole bool
}

// APIKind is the kind of API in API Gateway.
type APIKind string

// The kinds.
const (
	HTTP APIKind = "http"
	REST APIKind = "rest"
)

// Auth is how callers are authenticated. The authenticated principal scopes the identities of
// messages.
type Auth string

// The kinds of authentication.
const (
	IAM  Auth = "iam"  // signed requests; the role or user is the principal
	JWT  Auth = "jwt"  // the principal is the token's issuer and subject
	Key  Auth = "key"  // the principal is the API key; only REST APIs have keys
	None Auth = "none" // no authentication: all callers share one set of identities
)

func (s APISettings) check() error {
	var errs []error
	need := func(ok bool, problem string) {
		if !ok {
			errs = append(errs, errors.New("context "+problem))
		}
	}
	rest := s.Kind == REST
	need(!rest || len(s.CORSOrigins) == 0, "corsOrigins: API Gateway adds the headers to the answers of HTTP APIs only; set api=http")
	need(rest || s.Auth != Key, "auth: HTTP APIs have no keys; set api=rest")
	need(rest || len(s.VPCEndpoints) == 0, "vpcEndpoints: HTTP APIs can't be private; set api=rest")
	need(rest || s.Auth != JWT || s.JWTIssuer != "" && len(s.JWTAudience) > 0, "auth: jwt needs jwtIssuer and jwtAudience")
	need(!rest || s.Auth != JWT || s.UserPool != "", "auth: jwt of a REST API needs userPool")
	need(s.Auth != Key || len(s.Keys) > 0, "auth: key needs apiKeys")
	need(s.Auth == JWT || s.JWTIssuer == "" && len(s.JWTAudience) == 0 && s.UserPool == "", "jwtIssuer, jwtAudience, userPool: set auth=jwt")
	need(s.Auth == Key || len(s.Keys) == 0, "apiKeys: set auth=key")
	return errors.Join(errs...)
}
