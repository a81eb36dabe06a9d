package agent

import (
	"path/filepath"

	"stado.internal/stado/fleet"
	"stado.internal/stado/reconcile"
	"stado.internal/stado/reconcile/source"
)

// sources are where the registry is read from, in their order. Only the goroutine of the reconciler touches them, and the agent after its end.
type sources struct {
	agent   *Agent
	started *source.Git // the repository that this agent was started with
	// declared is the authority that the held registry names; nil when it names none, or the repository above.
	declared *source.Git
	of       source.Options // that declared was made of
}

func newSources(a *Agent, started source.Remote) *sources {
	return &sources{agent: a, started: source.New(a.reading(source.Options{Remote: started}))}
}

// reading completes the options of a source. Files with credentials are for the remote that this agent was started with; no registry leads
// them elsewhere.
func (a *Agent) reading(o source.Options) source.Options {
	o.Store, o.Runner = filepath.Join(a.opt.Home, "registry.git"), Child(a.opt.Child, a.opt.Settings.Evaluation)
	o.Log, o.Fault = a.opt.Log, a.opt.Fault
	ssh := OverSSH(a.opt.Settings)
	ssh.Host, ssh.Paths = o.SSH.Host, o.SSH.Paths
	o.SSH = ssh
	return o
}

// order is the authority that the held registry names, then the repository that this agent was started with: it is what leads to the
// registry before anything is held, and perhaps after an authority has gone for good.
func (s *sources) order(held *fleet.Snapshot) []reconcile.Source {
	var o source.Options
	var named bool
	if held != nil {
		host, _ := s.agent.identify(held) // a host that does not know itself is no authority
		var err error
		if o, named, err = source.Authority(held.Registry, host); err != nil {
			s.agent.opt.Log.Warn(err.Error())
		}
	}
	same := o.Remote.URL == s.started.String()
	if s.declared != nil && (!named || same || !o.Same(s.of)) {
		s.declared.Close()
		s.declared = nil
	}
	if !named || same {
		return []reconcile.Source{s.started}
	}
	if s.declared == nil {
		s.of, s.declared = o, source.New(s.agent.reading(o))
	}
	return []reconcile.Source{s.declared, s.started}
}

func (s *sources) close() {
	s.started.Close()
	if s.declared != nil {
		s.declared.Close()
	}
}
