// Package lambdaconfig reads the settings of AWS clients from the environment of a Lambda function.
//
// It replaces the SDK's package config in the deployed functions. That package links four more
// services, which log people in on their own machines, and Go initializes all of them at every
// start. Lambda passes credentials and region in variables, so a function needs none of them.
//
// # Limits
//
// Shared files, profiles, roles to assume and endpoints for credentials are not read. A variable
// that asks for one of them, or for any other setting of the SDK that this package does not know,
// is an error: no setting is silently ignored.
package lambdaconfig

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/smithy-go/logging"
	"github.com/aws/smithy-go/middleware"

	"github.com/effectively-once/once/internal/aws/keepalive"
)

// Load reads the variables of the environment with getenv, such as os.Getenv, and returns the
// configuration that the SDK would make of them. The error names every variable that can't be used.
func Load(getenv func(string) string) (aws.Config, error) {
	r := reader{getenv: getenv}
	cfg := aws.Config{
		Region: r.first("AWS_REGION", "AWS_DEFAULT_REGION"), Credentials: r.credentials(), HTTPClient: r.client(),
		RetryMaxAttempts: r.number("AWS_MAX_ATTEMPTS"), AppID: getenv("AWS_SDK_UA_APP_ID"), Logger: logging.NewStandardLogger(os.Stderr),
		// The defaults of the SDK.
		DefaultsMode: aws.DefaultsModeLegacy, RequestMinCompressSizeBytes: 10240, AccountIDEndpointMode: aws.AccountIDEndpointModePreferred,
		RequestChecksumCalculation: aws.RequestChecksumCalculationWhenSupported, ResponseChecksumValidation: aws.ResponseChecksumValidationWhenSupported,
		RestrictFilePermissions: aws.RestrictFilePermissionsUserReadWrite,
		APIOptions:              []func(*middleware.Stack) error{keepalive.AddTo},
	}
	if mode := getenv("AWS_RETRY_MODE"); mode != "" {
		var err error
		cfg.RetryMode, err = aws.ParseRetryMode(mode)
		r.check("AWS_RETRY_MODE", err)
	}
	e := endpoints{
		getenv: getenv, ignore: flag(&r, "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS", true, false),
		fips: flag(&r, "AWS_USE_FIPS_ENDPOINT", aws.FIPSEndpointStateEnabled, aws.FIPSEndpointStateDisabled),
		dual: flag(&r, "AWS_USE_DUALSTACK_ENDPOINT", aws.DualStackEndpointStateEnabled, aws.DualStackEndpointStateDisabled),
	}
	if url := getenv("AWS_ENDPOINT_URL"); url != "" && !e.ignore {
		cfg.BaseEndpoint = &url
	}
	cfg.ConfigSources = []any{e}
	for _, name := range unsupported() {
		if getenv(name) != "" {
			r.check(name, errors.New("the functions do not support this setting"))
		}
	}
	return cfg, errors.Join(r.errs...)
}

// unsupported lists the other variables of the SDK that change what a client does.
func unsupported() []string {
	return []string{
		"AWS_ACCESS_KEY", "AWS_SECRET_KEY", "AWS_CONTAINER_CREDENTIALS_FULL_URI", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "AWS_CONTAINER_AUTHORIZATION_TOKEN",
		"AWS_PROFILE", "AWS_DEFAULT_PROFILE", "AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE", "AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_ROLE_ARN", "AWS_ROLE_SESSION_NAME",
		"AWS_ENABLE_ENDPOINT_DISCOVERY", "AWS_S3_USE_ARN_REGION", "AWS_S3_DISABLE_MULTIREGION_ACCESS_POINTS", "AWS_S3_DISABLE_EXPRESS_SESSION_AUTH",
		"AWS_DEFAULTS_MODE", "AWS_DISABLE_REQUEST_COMPRESSION", "AWS_REQUEST_MIN_COMPRESSION_SIZE_BYTES", "AWS_DISABLE_CLOCK_SKEW_CORRECTION",
		"AWS_ACCOUNT_ID_ENDPOINT_MODE", "AWS_REQUEST_CHECKSUM_CALCULATION", "AWS_RESPONSE_CHECKSUM_VALIDATION", "AWS_AUTH_SCHEME_PREFERENCE",
	}
}

// A reader reads variables and collects errors.
type reader struct {
	getenv func(string) string
	errs   []error
}

func (r *reader) check(name string, err error) {
	if err != nil {
		r.errs = append(r.errs, fmt.Errorf("%s: %w", name, err))
	}
}

func (r *reader) first(names ...string) string {
	for _, name := range names {
		if value := r.getenv(name); value != "" {
			return value
		}
	}
	return ""
}

func (r *reader) number(name string) (n int) {
	if value := r.getenv(name); value != "" {
		var err error
		n, err = strconv.Atoi(value)
		r.check(name, err)
	}
	return n
}

// flag returns on or off, or the zero value if the variable is not set.
func flag[T any](r *reader, name string, on, off T) (unset T) {
	switch value := r.getenv(name); {
	case strings.EqualFold(value, "true"):
		return on
	case strings.EqualFold(value, "false"):
		return off
	case value != "":
		r.check(name, errors.New("must be true or false"))
	}
	return unset
}

func (r *reader) credentials() aws.CredentialsProvider {
	c := aws.Credentials{
		AccessKeyID: r.getenv("AWS_ACCESS_KEY_ID"), SecretAccessKey: r.getenv("AWS_SECRET_ACCESS_KEY"), SessionToken: r.getenv("AWS_SESSION_TOKEN"),
		AccountID: r.getenv("AWS_ACCOUNT_ID"), Source: "EnvConfigCredentials",
	}
	if !c.HasKeys() {
		r.check("AWS_ACCESS_KEY_ID", errors.New("there are no credentials"))
	}
	return credentials.StaticCredentialsProvider{Value: c}
}

// client returns nil, which means the SDK's own, unless the environment names certificates.
func (r *reader) client() aws.HTTPClient {
	const name = "AWS_CA_BUNDLE"
	path := r.getenv(name)
	if path == "" {
		return nil
	}
	pem, err := os.ReadFile(path) //nolint:gosec // the operator names it
	roots := x509.NewCertPool()
	if err == nil && !roots.AppendCertsFromPEM(pem) {
		err = errors.New("has no certificate")
	}
	r.check(name, err)
	return awshttp.NewBuildableClient().WithTransportOptions(func(t *http.Transport) {
		if t.TLSClientConfig == nil {
			t.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12}
		}
		t.TLSClientConfig.RootCAs = roots
	})
}

// endpoints answers the questions of the SDK's clients when they are made.
type endpoints struct {
	getenv func(string) string
	ignore bool
	fips   aws.FIPSEndpointState
	dual   aws.DualStackEndpointState
}

// GetServiceBaseEndpoint returns the endpoint of one service.
func (e endpoints) GetServiceBaseEndpoint(_ context.Context, service string) (string, bool, error) {
	url := e.getenv("AWS_ENDPOINT_URL_" + strings.ReplaceAll(strings.ToUpper(service), " ", "_"))
	return url, url != "", nil
}

// GetIgnoreConfiguredEndpoints reports whether endpoints of the environment are ignored.
func (e endpoints) GetIgnoreConfiguredEndpoints(context.Context) (bool, bool, error) {
	return e.ignore, e.ignore, nil
}

// GetUseFIPSEndpoint reports whether clients use endpoints with FIPS cryptography.
func (e endpoints) GetUseFIPSEndpoint(context.Context) (aws.FIPSEndpointState, bool, error) {
	return e.fips, e.fips != aws.FIPSEndpointStateUnset, nil
}

// GetUseDualStackEndpoint reports whether clients use endpoints with IPv6.
func (e endpoints) GetUseDualStackEndpoint(context.Context) (aws.DualStackEndpointState, bool, error) {
	return e.dual, e.dual != aws.DualStackEndpointStateUnset, nil
}
