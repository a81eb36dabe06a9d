package webhook

import (
	"errors"
	"fmt"
	"io/fs"
)

var (
	errHalf     = errors.New("the webhook needs an address and a secret (give --webhook-bind and --webhook-secret-file, or neither)")
	errUnsigned = errors.New("the post has no signature (give the webhook the secret of this host; the forge signs with HMAC-SHA256)")
	errForged   = errors.New("the signature is not one by the secret of this host (give the forge the same secret)")
	errCut      = errors.New("the post ended before its body did")
	errNoSecret = errors.New("this host cannot read its secret")
)

func sayListening(address string) string {
	return "the webhook listens on " + address + ": POST " + Path
}

func sayBadBind(bind string) error {
	return fmt.Errorf("the webhook cannot listen on %q, which is no address with a port (write 127.0.0.1:8455, or [::]:8455 for every address)", bind)
}

func sayNotListening(bind string, cause error) string {
	return fmt.Sprintf("the webhook does not listen on %s: %v; it is tried again, and the authority is asked on the declared interval as ever (name another address: webhook.bind in agent.cue)", bind, cause)
}

func sayRefused(count int, from string, cause error) string {
	if count == 1 {
		return fmt.Sprintf("a post to the webhook was refused, from %s: %v", from, cause)
	}
	return fmt.Sprintf("%d posts to the webhook were refused, the last one from %s: %v", count, from, cause)
}

func sayMalformed(header, prefix string) error {
	return fmt.Errorf("the header %s is no signature (it holds %s64 hexadecimal digits, once)", header, prefix)
}

func sayTooLarge() error {
	return fmt.Errorf("the post is larger than %d bytes", maxBody)
}

func sayOpenSecret(file string, perm fs.FileMode) error {
	return fmt.Errorf("the secret of the webhook, %s, can be used by others (mode %04o; run: chmod 0600 %s)", file, perm, file)
}

func sayBadSecret(file string) error {
	return fmt.Errorf("the secret of the webhook, %s, is not one line of at least %d characters (make one: openssl rand -hex 32)", file, leastSecret)
}
