"""The paper's figures and tables, each with the paper's number beside ours."""
