"""A workspace as the author of the feature process has it: role files and reports after the seed's text alone."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from interlock.engine.view import View
from tests.whole.bench import Bench

ROLES = (
    *("researcher", "spec", "designer", "planner", "implementer", "documentation-writer", "post-mortem"),
    *("ct-security", "ct-scalability", "ct-maintainability", "ct-strategy"),
    *("v-build", "v-tests", "v-tasks", "v-feature", "r-quality", "r-security", "r-testing", "r-knowledge"),
)
AGENT = r"""# what the author's agents do; they know their file names, and end with DONE:
root=${ROOT:-docs/feature/$(sed -n 's|.*docs/feature/\([a-z0-9-]*\)/initial-request.md.*|\1|p' | head -1)}
me=$INTERLOCK_MEMBER
mkdir -p $root/memory $root/research $root/ct-review $root/tasks $root/verification $root/review \
  $root/agent-metrics $root/post-mortems $root/artifact-evaluations
remember() {
  printf '# Memory: %s\n\n**Status:** DONE\n\n## Highest Severity\n\n%s\n\n## Key Findings\n\n- %s has looked\n\n' \
    $me "$1" $me > $root/memory/$me.mem.md
  printf '## Decisions\n\n- kept it small. Rationale: it is small\n\n## Artifact Index\n\n' >> $root/memory/$me.mem.md
  printf '| Artifact | Key Sections | Last Updated By |\n| --- | --- | --- |\n| %s.md | all | %s |\n' $me $me \
    >> $root/memory/$me.mem.md
}
report() { printf '# %s\n\nIt is as it should be.\n' "$me" > $root/$1; }
[ -f acts/$me.sh ] && . ./acts/$me.sh
case $INTERLOCK_AGENT in
  researcher) report research/${me#researcher-}.md; remember N/A ;;
  spec) printf '# Feature\n\n## Acceptance Criteria\n\n- AC-1: add adds\n' > $root/feature.md; remember N/A ;;
  designer) report design.md; remember N/A ;;
  ct-*) report ct-review/$me.md; remember Low ;;
  planner)
    printf '# Plan\n\n## Execution Waves\n\n### Wave 1 (parallel)\n\n- **task-01**: mend add\n\n' > $root/plan.md
    printf '### Wave 2\n\n- task-02: say so (needs task-01)\n' >> $root/plan.md
    printf '# Task 01\n\n- **Agent:** implementer\n\nMend add.\n' > $root/tasks/task-01.md
    printf '# Task 02\n\n- **agent**: documentation-writer\n- Depends on: task-01\n\nSay so.\n' > $root/tasks/task-02.md
    remember N/A ;;
  implementer) sed -i 's/a - b/a + b/' lib.py; remember N/A ;;
  documentation-writer) echo 'add adds' > README.md; remember N/A ;;
  v-*) report verification/$me.md; remember PASS ;;
  r-knowledge)
    report review/r-knowledge.md; echo '- keep it small' >> $root/review/knowledge-suggestions.md
    echo '- small, since it is small' >> $root/decisions.md; remember N/A ;;
  r-*) report review/$me.md; remember Minor ;;
  post-mortem)
    day=$(date -u +%F); report post-mortems/$day-post-mortem.md
    printf '```yaml\nrun: []\n```\n' > $root/agent-metrics/$day-run-log.md; remember N/A ;;
esac
rmdir $root/* 2>/dev/null
echo 'I have done what my file tells me.'
echo 'DONE: as it should be'
"""
REQUEST = "Make add right, please."
DOCUMENTS = {
    *("initial-request.md", "memory.md", "feature.md", "design.md", "plan.md", "decisions.md"),
    *(f"research/{one}.md" for one in ("architecture", "impact", "dependencies", "patterns")),
    *(f"ct-review/{one}.md" for one in ROLES if one.startswith("ct-")),
    *(f"verification/{one}.md" for one in ROLES if one.startswith("v-")),
    *(f"review/{one}.md" for one in (*(one for one in ROLES if one.startswith("r-")), "knowledge-suggestions")),
    *("tasks/task-01.md", "tasks/task-02.md"),
}


class Author(Bench):
    """The small project, with the author's agents."""

    playbook, asked = "feature", {"request": REQUEST}

    def __init__(self, top: Path) -> None:
        super().__init__(top)
        self.write("agent.sh", AGENT)
        for role in ROLES:
            front = f"---\nname: {role}\ndescription: The {role}.\n---\n"
            self.write(f".github/agents/{role}.agent.md", f"{front}You are the **{role}** of the pipeline.\n")
        self.commit("agents")

    def feature(self, **asked: Any) -> View:
        return asyncio.run(self.begin(**asked))

    def documents(self, slug: str = "make-add-right-please") -> dict[str, str]:
        root = self.top / "docs" / "feature" / slug
        return {path.relative_to(root).as_posix(): path.read_text() for path in root.rglob("*") if path.is_file()}
