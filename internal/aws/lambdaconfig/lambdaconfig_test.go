package lambdaconfig

import (
	"context"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	smithyhttp "github.com/aws/smithy-go/transport/http"
	"github.com/google/go-cmp/cmp"

	"github.com/effectively-once/once/internal/aws/call"
)

// supported are the variables that Load reads.
var supported = []string{
	"AWS_REGION", "AWS_DEFAULT_REGION", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_ACCOUNT_ID", "AWS_MAX_ATTEMPTS", "AWS_RETRY_MODE",
	"AWS_SDK_UA_APP_ID", "AWS_CA_BUNDLE", "AWS_USE_FIPS_ENDPOINT", "AWS_USE_DUALSTACK_ENDPOINT", "AWS_ENDPOINT_URL", "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS",
}

// without are the variables that have no meaning in a function: it has no instance metadata and
// writes no files with credentials.
var without = []string{
	"AWS_EC2_METADATA_DISABLED", "AWS_EC2_METADATA_SERVICE_ENDPOINT", "AWS_EC2_METADATA_SERVICE_ENDPOINT_MODE", "AWS_EC2_METADATA_V1_DISABLED", "AWS_RESTRICT_FILE_PERMISSIONS",
}

// inFunction sets the environment of a function, and of nothing else.
func inFunction(t *testing.T, variables ...string) {
	t.Helper()
	t.Setenv("HOME", t.TempDir())
	for _, v := range os.Environ() {
		if name, _, _ := strings.Cut(v, "="); strings.HasPrefix(name, "AWS_") {
			t.Setenv(name, "")
		}
	}
	for _, v := range append([]string{"AWS_REGION=eu-west-1", "AWS_ACCESS_KEY_ID=key", "AWS_SECRET_ACCESS_KEY=secret", "AWS_SESSION_TOKEN=token"}, variables...) {
		name, value, _ := strings.Cut(v, "=")
		t.Setenv(name, value)
	}
}

// seen is the effect of settings on clients.
type seen struct {
	Region, AppID            string
	Credentials              aws.Credentials
	Attempts                 int
	Mode                     aws.RetryMode
	DynamoDB, SQS, S3, Vault string
	FIPS                     aws.FIPSEndpointState
	Dual                     aws.DualStackEndpointState
	Rest                     []any
}

func look(t *testing.T, cfg aws.Config) seen {
	t.Helper()
	c, err := cfg.Credentials.Retrieve(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	d, q, o := dynamodb.NewFromConfig(cfg).Options(), sqs.NewFromConfig(cfg).Options(), s3.NewFromConfig(cfg).Options()
	return seen{
		Region: d.Region, AppID: d.AppID, Credentials: c, Attempts: d.RetryMaxAttempts, Mode: d.RetryMode,
		DynamoDB: aws.ToString(d.BaseEndpoint), SQS: aws.ToString(q.BaseEndpoint), S3: aws.ToString(o.BaseEndpoint), Vault: vault(t, cfg),
		FIPS: d.EndpointOptions.UseFIPSEndpoint, Dual: o.EndpointOptions.UseDualStackEndpoint,
		Rest: []any{
			cfg.DefaultsMode, cfg.RuntimeEnvironment, cfg.DisableRequestCompression, cfg.RequestMinCompressSizeBytes, cfg.DisableClockSkewCorrection, cfg.AccountIDEndpointMode,
			cfg.RequestChecksumCalculation, cfg.ResponseChecksumValidation, cfg.AuthSchemePreference, cfg.RestrictFilePermissions, d.EndpointDiscovery, o.UseARNRegion,
			cfg.ClientLogMode, cfg.HTTPClient == nil, cfg.BearerAuthTokenProvider == nil, cfg.Retryer == nil,
		},
	}
}

// vault returns the host that a call of Secrets Manager goes to.
func vault(t *testing.T, cfg aws.Config) (host string) {
	t.Helper()
	cfg.HTTPClient = smithyhttp.ClientDoFunc(func(r *http.Request) (*http.Response, error) {
		host = r.URL.Host
		return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
	})
	if err := call.New(cfg, call.SecretsManager()).JSON(t.Context(), "GetSecretValue", struct{}{}, nil); err != nil {
		t.Error(err)
	}
	return host
}

func TestClientsAreSetUpAsByTheSDK(t *testing.T) {
	for name, variables := range map[string][]string{
		"plain":             nil,
		"default region":    {"AWS_REGION=", "AWS_DEFAULT_REGION=us-east-2"},
		"account":           {"AWS_ACCOUNT_ID=123456789012"},
		"retries":           {"AWS_MAX_ATTEMPTS=7", "AWS_RETRY_MODE=adaptive"},
		"application":       {"AWS_SDK_UA_APP_ID=shop"},
		"FIPS":              {"AWS_USE_FIPS_ENDPOINT=true"},
		"IPv6":              {"AWS_USE_DUALSTACK_ENDPOINT=TRUE"},
		"neither":           {"AWS_USE_FIPS_ENDPOINT=false", "AWS_USE_DUALSTACK_ENDPOINT=false"},
		"one endpoint":      {"AWS_ENDPOINT_URL=http://127.0.0.1:1"},
		"several endpoints": {"AWS_ENDPOINT_URL=http://127.0.0.1:1", "AWS_ENDPOINT_URL_DYNAMODB=http://127.0.0.1:2", "AWS_ENDPOINT_URL_SECRETS_MANAGER=http://127.0.0.1:3"},
		"ignored endpoints": {"AWS_ENDPOINT_URL=http://127.0.0.1:1", "AWS_ENDPOINT_URL_SQS=http://127.0.0.1:2", "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS=true"},
		"without metadata":  {"AWS_EC2_METADATA_DISABLED=true"},
	} {
		t.Run(name, func(t *testing.T) {
			inFunction(t, variables...)
			want, err := config.LoadDefaultConfig(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			got, err := Load(os.Getenv)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(look(t, want), look(t, got)); diff != "" {
				t.Errorf("(-SDK +ours):\n%s", diff)
			}
		})
	}
}

func TestASettingThatCannotBeFollowedIsAnErrorThatNamesItsVariable(t *testing.T) {
	for _, name := range unsupported() {
		inFunction(t, name+"=1")
		if _, err := Load(os.Getenv); err == nil || !strings.Contains(err.Error(), name+":") {
			t.Errorf("%s: %v", name, err)
		}
		t.Setenv(name, "")
	}
	for _, variable := range []string{
		"AWS_MAX_ATTEMPTS=many", "AWS_RETRY_MODE=never", "AWS_USE_FIPS_ENDPOINT=yes", "AWS_USE_DUALSTACK_ENDPOINT=1", "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS=x",
		"AWS_ACCESS_KEY_ID=", "AWS_CA_BUNDLE=/nowhere", "AWS_CA_BUNDLE=" + os.Args[0],
	} {
		inFunction(t, variable)
		name, _, _ := strings.Cut(variable, "=")
		if _, err := Load(os.Getenv); err == nil || !strings.Contains(err.Error(), name+":") {
			t.Errorf("%s: %v", variable, err)
		}
		t.Setenv(name, "")
	}
}

// TestEveryVariableOfTheSDKIsSupportedOrRefused fails if a new version of the SDK reads a variable
// that this package would ignore.
func TestEveryVariableOfTheSDKIsSupportedOrRefused(t *testing.T) {
	folder, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "github.com/aws/aws-sdk-go-v2/config").Output()
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(folder)), "env_config.go"))
	if err != nil {
		t.Fatal(err)
	}
	known := slices.Concat(supported, without, unsupported())
	found := regexp.MustCompile(`"(AWS_[A-Z0-9_]+)"`).FindAllSubmatch(source, -1)
	if len(found) < 30 {
		t.Fatalf("only %d variables were found", len(found))
	}
	for _, f := range found {
		if name := string(f[1]); !slices.Contains(known, name) {
			t.Errorf("%s is neither supported nor refused", name)
		}
	}
}

func TestCertificatesOfTheEnvironmentAreTrusted(t *testing.T) {
	server := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(server.Close)
	bundle := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(bundle, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	inFunction(t, "AWS_CA_BUNDLE="+bundle)
	cfg, err := Load(os.Getenv)
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(context.WithoutCancel(t.Context()), http.MethodGet, server.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := cfg.HTTPClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	if err := response.Body.Close(); err != nil {
		t.Error(err)
	}
}
