package engine

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"svc/engine/client"
	"svc/engine/codehost"
	"svc/engine/estimate"
	"svc/engine/git"
	"svc/lru"
)

// kinds has what each kind of step does.
var kinds = map[client.Kind]func(context.Context, *step) (any, error){
	client.StepProbe:   typed(probe),
	client.StepIssues:  typed(issues),
	client.StepIssue:   typed(issue),
	client.StepCommit:  typed(commit),
	client.StepInspect: typed(inspect),
	client.StepPropose: typed(propose),
	client.StepLook:    typed(look),
	client.StepReady:   typed(ready),
	client.StepMerge:   typed(merge),
	client.StepTidy:    typed(tidy),
	client.StepWatch:   typed(watch),

	client.StepEstimate: typed(estimated),
	client.StepHook:     typed(hook),
	client.StepLabelled: typed(labelled),
}

// typed decodes the input of a step. Fields that it does not know are of a newer client.
func typed[In, Out any](do func(context.Context, *step, In) (Out, error)) func(context.Context, *step) (any, error) {
	return func(ctx context.Context, s *step) (any, error) {
		var in In
		if err := json.Unmarshal(s.Input, &in); err != nil {
			return nil, &client.Failure{Class: client.Permanent, Code: codeInput, Message: "The input of the step cannot be read."}
		}
		return do(ctx, s, in)
	}
}

// estimated estimates a run. It needs no repository.
func estimated(_ context.Context, _ *step, in client.EstimateInput) (client.EstimateResult, error) {
	return estimate.Of(in), nil
}

// codeInput says that a step's input has other types than its kind wants.
const codeInput = "invalid_step"

// Steps carries out steps.
type Steps struct {
	mirrors *git.Mirrors
	network codehost.Network
	slots   slots
	log     *slog.Logger
	beat    time.Duration // longest time between the lines of an answer
	spacing time.Duration // shortest time between tries to merge a pull request

	contained *lru.Cache[[2]string, bool]                 // whether the first commit contains the second
	inspected *lru.Cache[[3]string, client.InspectResult] // by the two commits and the hash of the policy
	refused   *lru.Cache[string, refused]                 // by repository and pull request
}

const (
	heartbeat    = 5 * time.Second
	mergeSpacing = 4 * time.Second // Gitea checks a pull request for three seconds, again with each try
	rememberHead = 8192
	rememberLook = 128 // whose findings and files take up to 100 KiB each

	defaultSeconds = 120
	maxSeconds     = 50 * 60
)

// OpenSteps returns what carries out steps. The caller closes it.
func OpenSteps(ctx context.Context, cfg Config, log *slog.Logger) (*Steps, error) {
	if err := git.CheckVersion(ctx); err != nil {
		return nil, err
	}
	dir := cfg.Dir
	if dir == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			cache = os.TempDir()
		}
		dir = filepath.Join(cache, "svc-engine")
	}
	mirrors, err := git.Open(dir)
	if err != nil {
		return nil, fmt.Errorf("SVC_ENGINE_DIR: %w", err)
	}
	return &Steps{
		mirrors: mirrors, network: codehost.NewNetwork(cfg.AllowLocal), slots: slots{wait: slotWait}, log: log,
		beat: heartbeat, spacing: mergeSpacing,
		contained: lru.New[[2]string, bool](rememberHead), inspected: lru.New[[3]string, client.InspectResult](rememberLook),
		refused: lru.New[string, refused](rememberLook),
	}, nil
}

const (
	idleAfter = 7 * 24 * time.Hour // without use, after which a mirror is removed: that of a repository that is not connected any more
	idleEvery = time.Hour
)

// Run removes idle mirrors until ctx ends.
func (s *Steps) Run(ctx context.Context) {
	ticker := time.NewTicker(idleEvery)
	defer ticker.Stop()
	for {
		if err := s.mirrors.RemoveIdle(ctx, time.Now().Add(-idleAfter)); err != nil && ctx.Err() == nil {
			s.log.WarnContext(ctx, "remove idle mirrors", "err", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// Close gives back the folder and the connections. No step may run.
func (s *Steps) Close() error {
	s.network.Close()
	return s.mirrors.Close()
}

// A step is one that runs.
type step struct {
	client.Step
	*Steps
	scrubber

	host     codehost.Host
	remote   git.Remote
	folder   string // of the step; it is deleted at the end
	change   string // file with the change, "" if there is none
	progress func(text string)
}

// newStep prepares a step.
func (s *Steps) newStep(request client.Step) (*step, error) {
	st := &step{Step: request, Steps: s}
	st.remote = s.remoteOf(request.Repository, request.Repository.Credential)
	st.hide(st.remote.Secrets()...)
	host, err := codehost.New(request.Repository, s.network)
	st.host = host
	return st, err
}

func (s *Steps) remoteOf(r client.Repository, c client.Credential) git.Remote {
	remote := git.Remote{URL: r.Clone, Token: c.Token}
	if !s.network.AllowLocal {
		remote.Resolve = s.network.Resolve
	}
	return remote
}

// limit returns how long the step may take.
func (s *step) limit() time.Duration {
	return time.Duration(min(max(cmp.Or(s.Seconds, defaultSeconds), 1), maxSeconds)) * time.Second
}

// identify makes sure that the name still leads to the repository that is meant. A step that changes something
// at the host begins with it.
func (s *step) identify(ctx context.Context) error {
	found, err := s.host.Repository(ctx)
	if err != nil {
		return err
	}
	if found.Name != s.Repository.Name && sameHost(found.Clone, s.remote.URL) {
		s.remote.URL = found.Clone
	}
	return nil
}

func sameHost(a, b string) bool {
	u, err := url.Parse(a)
	v, err2 := url.Parse(b)
	return err == nil && err2 == nil && u.Host == v.Host && u.Scheme == v.Scheme && u.User == nil
}

// work calls do with the repository's copy. It may be called twice.
func (s *step) work(ctx context.Context, do func(*git.Repository) error) error {
	return s.mirrors.Work(ctx, s.Repository.ID, s.remote, do)
}

// save keeps the change, if there is one, in the step's folder.
func (s *step) save(change io.Reader) (err error) {
	if s.folder, err = s.mirrors.Temp(); err != nil {
		return err
	}
	s.change = filepath.Join(s.folder, "change.diff")
	return git.Save(s.change, change)
}

// end deletes the step's folder.
func (s *step) end() {
	if s.folder != "" {
		_ = os.RemoveAll(s.folder) //nolint:gosec // the engine made it
	}
}

// errTime ends a step that takes longer than it may.
var errTime = errors.New("the step took too long")

// failure returns what an error of the step means, without its credentials.
func (s *step) failure(err error) *client.Failure {
	var f client.Failure
	known, ok := errors.AsType[*client.Failure](err)
	switch {
	case ok:
		f = *known
	case errors.Is(err, errTime):
		f = client.Failure{Class: client.Transient, Code: client.CodeTimeout, Message: fmt.Sprintf("The step took longer than %s.", s.limit())}
	default:
		f = client.Failure{Class: client.Transient, Code: client.CodeEngine, Message: "The engine could not finish the step: " + err.Error()}
	}
	f.Message = s.clean(f.Message)
	return &f
}

// permanent reports whether the error is a failure that no further try changes, or that somebody has to
// mend: there is no use in failing a step for a courtesy.
func permanent(err error) bool {
	f, ok := errors.AsType[*client.Failure](err)
	return ok && f.Class != client.Transient
}

// coded reports whether the error is a failure with a code.
func coded(err error, code string) bool {
	f, ok := errors.AsType[*client.Failure](err)
	return ok && f.Code == code
}

func fail(class client.Class, code, format string, args ...any) error {
	return &client.Failure{Class: class, Code: code, Message: fmt.Sprintf(format, args...)}
}
