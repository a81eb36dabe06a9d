package source

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/transport"
	githttp "github.com/go-git/go-git/v5/plumbing/transport/http"
	"github.com/hashicorp/go-retryablehttp"
)

// Retries inside one poll: enough for a front end that restarts. Longer troubles belong to the loop, which asks at the next refresh.
const (
	retryMax     = 2
	retryWaitMin = 200 * time.Millisecond
	retryWaitMax = time.Second
)

// A connection is kept for less time than servers and the boxes before them do, and headers have a bound of their own.
const (
	idleConnection = 55 * time.Second
	maxHeaders     = 64 << 10
)

// httpWire reads a repository over smart HTTP.
type httpWire struct {
	remote  Remote
	tracker *tracker
	session transport.UploadPackSession
	close   func() // ends connections that nobody uses
}

func newHTTPWire(r Remote, d Deadlines, t *tracker) (wire, error) {
	t.set(PhaseConnect)
	roots, err := authorities(r.CAFile)
	if err != nil {
		return nil, failure(KindCertificate, PhaseConnect, r.URL, err.Error())
	}
	auth, err := credentials(r.CredentialFile)
	if err != nil {
		return nil, failure(KindAuthentication, PhaseAuthentication, r.URL, err.Error())
	}
	endpoint, err := transport.NewEndpoint(r.URL)
	if err != nil {
		return nil, failure(KindUnreachable, PhaseConnect, r.URL, err.Error())
	}
	// Redirects are followed by nobody: the retrying client hands the answer up, and the git client then refuses it. Otherwise the
	// credentials of one host could reach another.
	retry := retrying(roots, d)
	client := githttp.NewClientWithOptions(retry.StandardClient(), &githttp.ClientOptions{RedirectPolicy: githttp.NoFollowRedirects})
	session, err := client.NewUploadPackSession(endpoint, auth)
	if err != nil {
		return nil, failure(KindInternal, PhaseConnect, r.URL, err.Error())
	}
	return &httpWire{remote: r, tracker: t, session: session, close: retry.HTTPClient.CloseIdleConnections}, nil
}

// retrying is a client for reads: it repeats what may be repeated, after the time that the server asks for if that is at most retryWaitMax
// and not at all if it is more, and logs nothing, since a log could hold credentials.
func retrying(roots *x509.CertPool, d Deadlines) *retryablehttp.Client {
	c := retryablehttp.NewClient()
	c.Logger = nil
	c.RetryMax, c.RetryWaitMin, c.RetryWaitMax = retryMax, retryWaitMin, retryWaitMax
	c.ErrorHandler = retryablehttp.PassthroughErrorHandler
	c.CheckRetry = worthRetrying
	c.Backoff = func(low, high time.Duration, attempt int, resp *http.Response) time.Duration {
		return max(min(low<<attempt, high), retryAfter(resp))
	}
	c.HTTPClient = &http.Client{
		Transport: &http.Transport{
			Proxy:               http.ProxyFromEnvironment,
			DialContext:         (&net.Dialer{Timeout: d.Connect}).DialContext,
			TLSHandshakeTimeout: d.Handshake,
			TLSClientConfig:     &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
			ForceAttemptHTTP2:   true,
			IdleConnTimeout:     idleConnection, MaxIdleConnsPerHost: 1, MaxResponseHeaderBytes: maxHeaders,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return c
}

// worthRetrying says yes to a server that is overloaded or restarting. A host that cannot be reached, or is silent, has had its time.
func worthRetrying(ctx context.Context, resp *http.Response, err error) (bool, error) {
	switch {
	case ctx.Err() != nil:
		return false, ctx.Err()
	case err != nil:
		return errors.Is(err, syscall.ECONNRESET) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF), nil
	}
	switch resp.StatusCode {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return retryAfter(resp) <= retryWaitMax, nil
	}
	return false, nil
}

// maxRetryAfter is how long a remote may have itself left alone: no answer keeps a host from its registry for longer.
const maxRetryAfter = 5 * time.Minute

// retryAfter is the time that an overloaded server asks for before the next question, 0 when it asks for none (RFC 9110, 10.2.3).
func retryAfter(resp *http.Response) time.Duration {
	if resp == nil || resp.StatusCode != http.StatusTooManyRequests && resp.StatusCode != http.StatusServiceUnavailable {
		return 0
	}
	text := resp.Header.Get("Retry-After")
	if seconds, err := strconv.ParseUint(text, 10, 32); err == nil || errors.Is(err, strconv.ErrRange) { // out of range, it is the largest
		return min(time.Duration(seconds)*time.Second, maxRetryAfter)
	}
	if at, err := http.ParseTime(text); err == nil {
		return min(max(time.Until(at), 0), maxRetryAfter)
	}
	return 0
}

func authorities(file string) (*x509.CertPool, error) {
	if file == "" {
		return nil, nil // the system's
	}
	pem, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("cannot read the CA file: %w", err)
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool()
	}
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("the CA file %s holds no certificate in PEM form", file)
	}
	return pool, nil
}

// credentials reads the credential file, which must be nobody else's to read. Its content never appears in an error.
func credentials(file string) (githttp.AuthMethod, error) {
	if file == "" {
		return nil, nil
	}
	info, err := os.Stat(file)
	if err != nil {
		return nil, fmt.Errorf("cannot read the credential file: %w", err)
	}
	if perm := info.Mode().Perm(); perm&0o077 != 0 {
		return nil, fmt.Errorf("the credential file %s can be used by others (mode %04o; run: chmod 0600 %s)", file, perm, file)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("cannot read the credential file: %w", err)
	}
	line := strings.TrimSpace(string(data))
	if line == "" || strings.ContainsAny(line, "\r\n") {
		return nil, fmt.Errorf("the credential file %s does not hold one line of user:password, or a token", file)
	}
	if user, password, ok := strings.Cut(line, ":"); ok {
		return &githttp.BasicAuth{Username: user, Password: password}, nil
	}
	return &githttp.BasicAuth{Username: "git", Password: line}, nil // forges look at the token only
}

// traced follows the phases of a request; after is the phase in which the remote's answer is awaited.
func (t *tracker) traced(ctx context.Context, after string) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GetConn:           func(string) { t.set(PhaseConnect) },
		TLSHandshakeStart: func() { t.set(PhaseHandshake) },
		GotConn:           func(httptrace.GotConnInfo) { t.set(after) },
	})
}

func (w *httpWire) advertise(ctx context.Context) (*packp.AdvRefs, error) {
	adv, err := w.session.AdvertisedReferencesContext(w.tracker.traced(ctx, PhaseAdvertisement))
	if err != nil {
		return nil, w.refusal(ctx, err)
	}
	return adv, nil
}

func (w *httpWire) pack(ctx context.Context, req *packp.UploadPackRequest) (io.ReadCloser, error) {
	r, err := w.session.UploadPack(w.tracker.traced(ctx, PhasePack), req)
	if err != nil {
		return nil, w.refusal(ctx, err)
	}
	w.tracker.set(PhasePack)
	return r, nil
}

func (w *httpWire) leave() { w.close() }

func (w *httpWire) refusal(ctx context.Context, err error) error {
	phase, remote := w.tracker.phase(), w.remote.URL
	err = innermost(err)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	switch {
	case errors.Is(err, transport.ErrEmptyRemoteRepository):
		return failure(KindEmpty, phase, remote, "the repository is empty")
	case errors.Is(err, transport.ErrAuthenticationRequired):
		return statusFailure(http.StatusUnauthorized, "", phase, remote)
	case errors.Is(err, transport.ErrAuthorizationFailed):
		return statusFailure(http.StatusForbidden, "", phase, remote)
	case errors.Is(err, transport.ErrRepositoryNotFound):
		return statusFailure(http.StatusNotFound, "", phase, remote)
	}
	var status *githttp.Err
	if errors.As(err, &status) {
		return statusFailure(status.Response.StatusCode, status.Response.Status, phase, remote)
	}
	if why, ok := strings.CutPrefix(err.Error(), "http redirect: "); ok {
		return failure(KindRedirect, phase, remote, sayRedirect(repositoryOf(why[strings.LastIndexByte(why, ' ')+1:])))
	}
	return networkFailure(err, phase, remote)
}

// statusFailure classes an answer that is a refusal.
func statusFailure(code int, status, phase, remote string) error {
	switch code {
	case http.StatusUnauthorized:
		return failure(KindAuthentication, PhaseAuthentication, remote, "the remote wants other credentials (401)")
	case http.StatusForbidden:
		return failure(KindAuthentication, PhaseAuthentication, remote, "the remote refuses these credentials (403)")
	case http.StatusNotFound:
		return failure(KindNotFound, phase, remote, "there is no such repository, or it is hidden from these credentials (404)")
	}
	return failure(KindServer, phase, remote, "the remote answers "+status)
}

// networkFailure classes what the network and TLS say.
func networkFailure(err error, phase, remote string) error {
	var dns *net.DNSError
	var op *net.OpError
	var unknown x509.UnknownAuthorityError
	var verify *tls.CertificateVerificationError
	var timeout interface{ Timeout() bool }
	cause := err.Error()
	switch {
	case errors.As(err, &verify), errors.As(err, &unknown):
		return failure(KindCertificate, PhaseHandshake, remote, cause)
	case errors.As(err, &timeout) && timeout.Timeout():
		return failure(KindTimeout, phase, remote, cause)
	case errors.As(err, &dns), errors.As(err, &op), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return failure(KindUnreachable, phase, remote, cause)
	}
	return failure(KindProtocol, phase, remote, cause)
}

// innermost drops the wrappings that repeat the address or hide the cause.
func innermost(err error) error {
	for {
		var request *url.Error
		var unexpected *plumbing.UnexpectedError
		switch {
		case errors.As(err, &request):
			err = request.Err
		case errors.As(err, &unexpected):
			err = unexpected.Err
		default:
			return err
		}
	}
}

// repositoryOf strips the request from a redirect's target.
func repositoryOf(target string) string {
	target, _, _ = strings.Cut(target, "?")
	return strings.TrimSuffix(target, "/info/refs")
}
