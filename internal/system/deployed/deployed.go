package deployed

import (
	"archive/zip"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/lambda"

	onceconfig "github.com/effectively-once/once/internal/config"
	system "github.com/effectively-once/once/internal/system/function"
)

const (
	// maxCode is the largest size of a function's archive, in bytes; Lambda takes 50 MB.
	maxCode = 64 << 20
	// codeTime bounds the download of an archive.
	codeTime = 2 * time.Minute
)

// checkConfiguration compares the configuration of a function with a file's text, byte by byte.
func (s *Stack) checkConfiguration(ctx context.Context, r *report, f function, want []byte) {
	const check = "configuration"
	got, err := s.configurationOf(ctx, f)
	if err != nil {
		r.unknown(f.name, check, err)
		return
	}
	r.expect(bytes.Equal(got, want), f.name, check, "is not the one here: deploy, or name the file that was deployed with --config")
}

// configurationOf returns the text that a function reads as its configuration: its variable, or the
// file of that name in its archive.
func (s *Stack) configurationOf(ctx context.Context, f function) ([]byte, error) {
	value := f.environment[system.EnvConfig]
	if value == "" {
		return nil, fmt.Errorf("%s is not set", system.EnvConfig)
	}
	if strings.Contains(value, "\n") {
		return []byte(value), nil
	}
	out, err := s.lambda.GetFunction(ctx, &lambda.GetFunctionInput{FunctionName: &f.name})
	if err != nil {
		return nil, fmt.Errorf("find archive of function %s: %w", f.name, explain(err))
	}
	if out.Code == nil || aws.ToString(out.Code.Location) == "" {
		return nil, errors.New("the archive of the function can't be downloaded")
	}
	archive, err := s.download(ctx, *out.Code.Location)
	if err != nil {
		return nil, fmt.Errorf("download archive of function %s: %w", f.name, err)
	}
	text, err := fileIn(archive, value)
	if err != nil {
		return nil, fmt.Errorf("read archive of function %s: %w", f.name, err)
	}
	return text, nil
}

// download reads a URL that AWS has signed, so that it needs no credentials.
func (s *Stack) download(ctx context.Context, url string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, codeTime)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	answer, err := s.httpClient().Do(r)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return nil, errors.New(answer.Status)
	}
	data, err := io.ReadAll(io.LimitReader(answer.Body, maxCode+1))
	if err == nil && len(data) > maxCode {
		err = fmt.Errorf("more than %d bytes", maxCode)
	}
	return data, err
}

// httpClient returns the SDK's client: if the settings have a bundle of certificates, one that
// trusts them.
func (s *Stack) httpClient() aws.HTTPClient {
	if s.config.HTTPClient != nil {
		return s.config.HTTPClient
	}
	return awshttp.NewBuildableClient()
}

// fileIn returns a file of a zip archive.
func fileIn(archive []byte, name string) ([]byte, error) {
	z, err := zip.NewReader(bytes.NewReader(archive), int64(len(archive)))
	if err != nil {
		return nil, err
	}
	file, err := z.Open(strings.TrimPrefix(name, "./"))
	if err != nil {
		return nil, err
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, onceconfig.MaxSize+1))
	if err == nil && len(data) > onceconfig.MaxSize {
		err = fmt.Errorf("%s has more than %d bytes", name, onceconfig.MaxSize)
	}
	return data, err
}
