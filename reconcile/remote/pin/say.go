package pin

import (
	"fmt"
	"strings"
)

func sayNoFile(file string) error {
	return fmt.Errorf("%s is no plain file, so no host key can be written to it (name another one: --known-hosts)", file)
}

func sayForeignFile(file string, owner uint32) error {
	return fmt.Errorf("%s belongs to user %d, and a file that replaces it would not (run this as that user, or name another file: --known-hosts)", file, owner)
}

func sayTooLarge(file string, size int64) error {
	return fmt.Errorf("%s has %d bytes, where %d are the most that a known_hosts file may have (name another one: --known-hosts)", file, size, maxFile)
}

func sayBinary(file string) error {
	return fmt.Errorf("%s is no text, so it is no known_hosts file (name another one: --known-hosts)", file)
}

func sayMoved(file string, line int) error {
	return fmt.Errorf("%s:%d does not have the key any more that was to be replaced: somebody else has changed the file (look again: stado hostkey show)", file, line)
}

func sayShared(file string, line int, hosts []string) error {
	return fmt.Errorf("%s:%d is about %s, so the key on it is not replaced (edit that line)", file, line, strings.Join(hosts, " and "))
}
