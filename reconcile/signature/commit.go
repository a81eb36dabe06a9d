package signature

import (
	"bytes"
	"strconv"
	"strings"
	"time"

	"stado.internal/stado/fleet"
)

// Commit is a commit object taken apart.
type Commit struct {
	Tree      string
	Parents   []string
	Author    string    // `name <mail>`, as the author wrote it: not verified
	Time      time.Time // the committer's, likewise
	Payload   []byte    // what is signed: the object without its signature headers
	Signature []byte    // armored; nil when there is none
}

// The headers that every commit has, in their order, and those of signatures. Which one signs the object follows from the object's hash.
const (
	headTree      = "tree"
	headParent    = "parent"
	headAuthor    = "author"
	headCommitter = "committer"
	headSigned    = "gpgsig"
)

// Object ids in hexadecimal.
const (
	sha1Hex   = 40
	sha256Hex = 64
)

// ParseCommit takes the bytes of a commit as git stores them. It reads strictly: an object that two programs could read in two ways has
// no meaning that a signature could vouch for. The error, one sentence, says what is malformed.
func ParseCommit(raw []byte) (Commit, error) {
	head, _, ok := bytes.Cut(raw, []byte("\n\n"))
	if !ok {
		return Commit{}, malformed("its headers do not end")
	}
	if bytes.IndexByte(head, 0) >= 0 {
		return Commit{}, malformed("a header holds a NUL byte")
	}
	p := commitParser{signed: map[string][]byte{}}
	for line := range bytes.SplitSeq(head, []byte("\n")) {
		if err := p.line(line); err != nil {
			return Commit{}, err
		}
	}
	if p.stage != afterCommitter {
		return Commit{}, malformed("it has no tree, author or committer")
	}
	p.commit.Payload = append(p.payload, raw[len(head)+1:]...)
	header := headSigned
	if len(p.commit.Tree) == sha256Hex {
		header = headSigned + "-sha256"
	}
	p.commit.Signature = p.signed[header]
	return p.commit, nil
}

// stage is the last of the headers in a fixed order that was read.
type stage int

const (
	atStart stage = iota
	afterTree
	afterAuthor
	afterCommitter
)

type commitParser struct {
	commit  Commit
	stage   stage
	payload []byte
	signed  map[string][]byte // signatures by header
	open    string            // the signature header whose lines go on
	last    string            // the header whose lines go on
}

func (p *commitParser) line(line []byte) error {
	if more, ok := bytes.CutPrefix(line, []byte(" ")); ok {
		return p.continued(line, more)
	}
	name, value, _ := strings.Cut(string(line), " ")
	p.open, p.last = "", name
	if strings.HasPrefix(name, headSigned) {
		return p.signature(name, value)
	}
	p.payload = append(append(p.payload, line...), '\n')
	switch name {
	case headTree:
		return p.tree(value)
	case headParent:
		return p.parent(value)
	case headAuthor:
		if p.stage != afterTree {
			return malformed("its author header is doubled or out of place")
		}
		p.stage = afterAuthor
		var err error
		p.commit.Author, _, err = ident(value)
		return err
	case headCommitter:
		if p.stage != afterAuthor {
			return malformed("its committer header is doubled or out of place")
		}
		p.stage = afterCommitter
		var err error
		_, p.commit.Time, err = ident(value)
		return err
	}
	if p.stage != afterCommitter {
		return malformed("another header stands before its committer")
	}
	return nil
}

// continued is a line that belongs to the header above it.
func (p *commitParser) continued(line, more []byte) error {
	switch {
	case p.open != "":
		p.signed[p.open] = append(append(p.signed[p.open], more...), '\n')
		return nil
	case p.stage != afterCommitter || p.last == headCommitter:
		return malformed("one of its headers goes on over a second line")
	}
	p.payload = append(append(p.payload, line...), '\n')
	return nil
}

// signature begins a signature header. git leaves out of the payload whatever starts like one, so that a name which only looks like it
// would carry text that nobody signed.
func (p *commitParser) signature(name, value string) error {
	switch {
	case name != headSigned && name != headSigned+"-sha256":
		return malformed("it has an unknown signature header")
	case p.stage != afterCommitter:
		return malformed("its signature stands before its committer")
	case p.signed[name] != nil:
		return malformed("its signature header is doubled")
	case value == "":
		return malformed("its signature header is empty")
	}
	p.open = name
	p.signed[name] = []byte(value + "\n")
	return nil
}

func (p *commitParser) tree(id string) error {
	if p.stage != atStart || !objectID(id) {
		return malformed("its tree header is doubled, out of place or no object id")
	}
	p.stage, p.commit.Tree = afterTree, id
	return nil
}

func (p *commitParser) parent(id string) error {
	if p.stage != afterTree || !objectID(id) || len(id) != len(p.commit.Tree) {
		return malformed("a parent header is out of place or no object id")
	}
	p.commit.Parents = append(p.commit.Parents, id)
	return nil
}

func objectID(s string) bool {
	return (len(s) == sha1Hex || len(s) == sha256Hex) && !strings.ContainsFunc(s, func(r rune) bool {
		return !(r >= '0' && r <= '9' || r >= 'a' && r <= 'f')
	})
}

// ident reads `name <mail> seconds zone`.
func ident(value string) (who string, at time.Time, err error) {
	end := strings.LastIndexByte(value, '>')
	if end < 0 || strings.Count(value, "<") != 1 || strings.Count(value, ">") != 1 || strings.IndexByte(value, '<') > end {
		return "", at, malformed("a person in it is not written NAME <MAIL>")
	}
	words := strings.Fields(value[end+1:])
	if len(words) != 2 {
		return "", at, malformed("a person in it has no time")
	}
	seconds, err := strconv.ParseInt(words[0], 10, 64)
	if err != nil || seconds < 0 {
		return "", at, malformed("a time in it is no number of seconds")
	}
	return fleet.OneLine(value[:end+1], maxAuthor), time.Unix(seconds, 0).UTC(), nil
}

// maxAuthor is how many characters of an author are shown.
const maxAuthor = 200

// malformedError is why a commit cannot be read.
type malformedError struct{ why string }

func (e *malformedError) Error() string { return "malformed commit: " + e.why }

func malformed(why string) error { return &malformedError{why} }
