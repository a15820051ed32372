package secret_test

import (
	"context"
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/secretsmanager"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
	"github.com/aws/aws-sdk-go-v2/service/ssm/types"

	"github.com/effectively-once/once/internal/aws/secret"
	"github.com/effectively-once/once/internal/testkit/awstest"
)

var errAway = errors.New("away")

// vault is both services. It answers after a second.
type vault struct {
	value string
	err   error
	calls int
}

func (v *vault) answer() (string, error) {
	v.calls++
	time.Sleep(time.Second) // virtual time: all tests that use a vault run in a bubble
	return v.value, v.err
}

func (v *vault) GetSecretValue(_ context.Context, in *secretsmanager.GetSecretValueInput, _ ...func(*secretsmanager.Options)) (*secretsmanager.GetSecretValueOutput, error) {
	value, err := v.answer()
	return &secretsmanager.GetSecretValueOutput{SecretString: aws.String(*in.SecretId + " " + value + "\n")}, err
}

func (v *vault) GetParameter(_ context.Context, in *ssm.GetParameterInput, _ ...func(*ssm.Options)) (*ssm.GetParameterOutput, error) {
	value, err := v.answer()
	return &ssm.GetParameterOutput{Parameter: &types.Parameter{Value: aws.String(*in.Name + " " + value)}}, err
}

func TestASecretIsCachedForSomeMinutes(t *testing.T) {
	for _, kind := range []string{"secretsmanager", "ssm"} {
		synctest.Test(t, func(t *testing.T) {
			v := &vault{value: "one"}
			r := secret.New(secret.Options{SecretsManager: v, Parameters: v})
			var wg sync.WaitGroup
			for range 10 {
				wg.Go(func() {
					if got, err := r.Read(t.Context(), kind+":arn:aws:x:y"); got != "arn:aws:x:y one" || err != nil {
						t.Errorf("got %q, %v", got, err)
					}
				})
			}
			wg.Wait()
			if v.calls != 1 {
				t.Errorf("%d calls", v.calls)
			}
			v.value = "two"
			for _, want := range []string{"n one", "n two"} {
				v.value = strings.TrimPrefix(want, "n ")
				if got, err := r.Source(kind + ":n")(); got != want || err != nil {
					t.Errorf("got %q, %v", got, err)
				}
				time.Sleep(5 * time.Minute)
			}
		})
	}
}

func TestACachedSecretIsUsedWhileItsServiceFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := &vault{value: "one"}
		r := secret.New(secret.Options{SecretsManager: v})
		if _, err := r.Read(t.Context(), "secretsmanager:n"); err != nil {
			t.Fatal(err)
		}
		v.err = errAway
		time.Sleep(time.Hour)
		if got, err := r.Read(t.Context(), "secretsmanager:n"); got != "n one" || err != nil {
			t.Errorf("got %q, %v", got, err)
		}
		time.Sleep(6 * time.Minute)
		if got, err := r.Read(t.Context(), "secretsmanager:n"); got != "" || !errors.Is(err, errAway) {
			t.Errorf("got %q, %v", got, err)
		}
	})
}

func TestACancelledCallerReturnsAndTheOthersGetTheAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := &vault{value: "one"}
		r := secret.New(secret.Options{Parameters: v})
		var wg sync.WaitGroup
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			defer cancel()
			if _, err := r.Read(ctx, "ssm:n"); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("got %v", err)
			}
		})
		synctest.Wait()
		if got, err := r.Read(t.Context(), "ssm:n"); got != "n one" || err != nil {
			t.Errorf("got %q, %v", got, err)
		}
		wg.Wait()
	})
}

func TestVariablesAndFilesAreReadEachTime(t *testing.T) {
	path := filepath.Join(t.TempDir(), "secret")
	r := secret.New(secret.Options{})
	for _, want := range []string{"one", "two"} {
		t.Setenv("HOOK_SECRET", " "+want+"\n")
		if err := os.WriteFile(path, []byte(want+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, place := range []string{"env:HOOK_SECRET", "file:" + path} {
			if got, err := r.Read(t.Context(), place); got != want || err != nil {
				t.Errorf("%s: %q, %v", place, got, err)
			}
		}
	}
}

func TestAnEmptyPlaceIsAnError(t *testing.T) {
	r := secret.New(secret.Options{})
	if _, err := r.Read(t.Context(), "env:NOT_SET_ANYWHERE"); !errors.Is(err, secret.ErrNone) {
		t.Errorf("variable: %v", err)
	}
	if _, err := r.Read(t.Context(), "file:/nowhere"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("file: %v", err)
	}
	for _, place := range []string{"", "plain", "ssm:n", "secretsmanager:n"} {
		if got, err := r.Read(t.Context(), place); got != "" || err == nil || !strings.Contains(err.Error(), place) {
			t.Errorf("%s: %q, %v", place, got, err)
		}
	}
}

func TestSecretsAreReadFromBothServices(t *testing.T) {
	cfg := awstest.Config(t, "SECRETS_MANAGER", "SSM")
	manager, parameters, name := secretsmanager.NewFromConfig(cfg), ssm.NewFromConfig(cfg), rand.Text()
	made, err := manager.CreateSecret(t.Context(), &secretsmanager.CreateSecretInput{Name: &name, SecretString: aws.String("of the manager")})
	if err != nil {
		t.Fatal(err)
	}
	path := "/test/" + name
	if _, err := parameters.PutParameter(t.Context(), &ssm.PutParameterInput{Name: &path, Value: aws.String("of the store"), Type: types.ParameterTypeSecureString}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		_, err1 := manager.DeleteSecret(ctx, &secretsmanager.DeleteSecretInput{SecretId: &name, ForceDeleteWithoutRecovery: aws.Bool(true)})
		_, err2 := parameters.DeleteParameter(ctx, &ssm.DeleteParameterInput{Name: &path})
		if err := errors.Join(err1, err2); err != nil {
			t.Error(err)
		}
	})
	r := secret.New(secret.Options{SecretsManager: manager, Parameters: parameters})
	for place, want := range map[string]string{
		"secretsmanager:" + name: "of the manager", "secretsmanager:" + aws.ToString(made.ARN): "of the manager", "ssm:" + path: "of the store",
	} {
		if got, err := r.Read(t.Context(), place); got != want || err != nil {
			t.Errorf("%s: %q, %v", place, got, err)
		}
	}
	if _, err := r.Read(t.Context(), "ssm:"+path+"-missing"); err == nil {
		t.Error("a parameter that is not there was read")
	}
}
